"""Where each key was last seen: the memory of a compaction, in 24 bytes a slot and no more.

Open addressing in one array of integers: two hashes of the key and the offset. A dict would be quicker and take six
times the memory. The two hashes are CPython's SipHash of the key and of the key after a zero byte: 64 bits each,
keyed at random in every process, so that nobody can send keys that collide. Two keys that agree in all 128 bits would
be taken for one; Kafka accepts the same of MD5.

The table begins small and grows fourfold, the last time to the memory it is allowed: while it does, and only then,
it takes a quarter more. Its size is the next prime, so that double hashing visits every slot and one is always empty.
"""

from array import array

SLOT_BYTES = 24
_SLOTS_AT_FIRST_MAX = 1 << 15
_GROWTH = 4
_GROW_ABOVE = 0.6


class KeyMap:
    __slots__ = ("_grow_above", "_slots", "_slots_max", "_table", "entries", "entries_max", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """Creates an empty map that takes at most `load_factor` of the slots that fit into the memory."""
        self._slots_max = memory_bytes // SLOT_BYTES
        self.entries_max = int(self._slots_max * load_factor)
        if self.entries_max < 1:
            raise ValueError(f"{memory_bytes} bytes hold no key at a load factor of {load_factor}")
        self.entries = 0
        self.latest_offset = -1
        """Everything up to here was looked at."""
        slots = self._slots_max
        while slots > _SLOTS_AT_FIRST_MAX:
            slots = -(-slots // _GROWTH)
        self._allocate(slots)

    def _allocate(self, slots: int) -> None:
        is_final = slots >= self._slots_max
        self._slots = _prime_above(self._slots_max if is_final else slots)
        self._grow_above = self._slots if is_final else int(self._slots * _GROW_ABOVE)
        self._table = array("q", [0]) * (3 * self._slots)

    @property
    def is_full(self) -> bool:
        return self.entries >= self.entries_max

    def put(self, key: bytes, offset: int) -> None:
        """Stores the offset. The first slot is tried here, as in `get`: mostly it is right, and a call takes longer."""
        first, second = hash(key), hash(b"\0" + key)
        table = self._table
        at = first % self._slots * 3
        if table[at] != first or table[at + 1] != second:
            at = self._find(first, second)
            if not table[at + 2]:
                at, table = self._add(first, second, at)
        table[at + 2] = offset + 1

    def _add(self, first: int, second: int, at: int) -> "tuple[int, array[int]]":
        if self.entries >= self._grow_above:
            self._grow()
            at = self._find(first, second)
        self._table[at] = first
        self._table[at + 1] = second
        self.entries += 1
        return at, self._table

    def get(self, key: bytes) -> int:
        """Returns the offset of the key, -1 if it was not seen."""
        first, second = hash(key), hash(b"\0" + key)
        table = self._table
        at = first % self._slots * 3
        if table[at] != first or table[at + 1] != second:
            at = self._find(first, second)
        return table[at + 2] - 1

    def _find(self, first: int, second: int) -> int:
        """Returns where the entry is, or would be: an empty slot has no offset."""
        table, slots = self._table, self._slots
        slot, step = first % slots, 1 + second % (slots - 1)
        at = slot * 3
        while table[at + 2] and (table[at] != first or table[at + 1] != second):
            slot = (slot + step) % slots
            at = slot * 3
        return at

    def _grow(self) -> None:
        old = self._table
        self._allocate(self._slots * _GROWTH)
        for at in range(0, len(old), 3):
            if old[at + 2]:
                to = self._find(old[at], old[at + 1])
                self._table[to : to + 3] = old[at : at + 3]


def _prime_above(number: int) -> int:
    number += 1
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number
