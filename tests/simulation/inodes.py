"""What stands on a simulated disk: files and directories, each as a process sees it and as a power cut leaves it."""

from random import Random

SECTOR_BYTES = 64
"""Small, so that small batches tear in many ways."""


class Inode:
    __slots__ = ("closed_in_life", "data", "has_name", "is_rotten", "modified_ms", "pending", "synced")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        """Since the last sync: (position, bytes) written, or (size, None) truncated."""
        self.modified_ms = modified_ms
        self.has_name = True
        """Without one its bytes are free when the last handle is closed, and not counted any more."""
        self.is_rotten = False
        self.closed_in_life = -1
        """A process that has cut the file in this life of its machine writes no more to it."""

    def sync(self) -> None:
        """Costs what was written since the last one."""
        if self.is_rotten:
            self.synced = bytearray(self.data)
        else:
            for position, data in self.pending:
                if data is None:
                    del self.synced[position:]
                else:
                    self.synced += bytes(max(position - len(self.synced), 0)) + data
        self.pending.clear()

    def fail_to_sync(self) -> None:
        """As Linux does: what could not be written is never tried again, and is shown for as long as it is cached."""
        self.pending.clear()

    def drop_cache(self) -> None:
        if not self.pending:
            self.data = bytearray(self.synced.ljust(len(self.data), b"\0"))

    def after_power_cut(self, random: Random) -> bytes:
        content = bytearray(self.synced)
        habit = random.random()
        for position, data in self.pending:
            fate = habit if habit < 0.5 else random.random()
            if fate < 0.2:
                continue
            if data is None:
                del content[position:]
            else:
                _write(content, position, data, fate, random)
        return bytes(content)


def _write(content: bytearray, position: int, data: bytes, fate: float, random: Random) -> None:
    """All of it, a prefix, or some sectors with zeros where the others should be."""
    if fate > 0.7:
        data = data[: random.randrange(len(data) + 1)]
    end = position + len(data)
    if end > len(content):
        content.extend(bytes(end - len(content)))
    if fate < 0.4 or fate > 0.7:
        content[position:end] = data
        return
    at = position
    while at < end:
        stop = min(end, at - at % SECTOR_BYTES + SECTOR_BYTES)
        if random.random() < 0.7:
            content[at:stop] = data[at - position : stop - position]
        at = stop


class Directory:
    __slots__ = ("entries", "pending", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.pending: list[tuple[str, str, Node | None]] = []
        """Since the last sync: (name it had, name it has, node); no node: removed."""

    def set(self, name: str, node: "Node") -> None:
        self.entries[name] = node
        self.pending.append(("", name, node))

    def remove(self, name: str) -> None:
        del self.entries[name]
        self.pending.append((name, "", None))

    def rename(self, source: str, target: str) -> None:
        node = self.entries.pop(source)
        self.entries[target] = node
        self.pending.append((source, target, node))

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.pending.clear()

    def after_power_cut(self, random: Random) -> "dict[str, Node]":
        entries = dict(self.synced)
        chance = random.choice((0.0, 0.5, 1.0))
        for source, target, node in self.pending:
            if random.random() < chance:
                entries.pop(source, None)
                if node is not None:
                    entries[target] = node
        return entries


Node = Inode | Directory


def sync_all(directory: Directory) -> None:
    directory.sync()
    for node in directory.entries.values():
        if isinstance(node, Directory):
            sync_all(node)
        else:
            node.sync()


def used_bytes(directory: Directory) -> int:
    return sum(
        used_bytes(node) if isinstance(node, Directory) else len(node.data) for node in directory.entries.values()
    )
