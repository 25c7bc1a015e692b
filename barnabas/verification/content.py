"""What the records of a run hold. Key and value both say whose it is, so that no change to one of them hides it."""

import struct
from zlib import crc32

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.verification.events import FOREIGN, PRODUCERS_MAX, SEQUENCES_MAX

_HEAD = struct.Struct(">8sIQ")  # the run, the producer, the sequence; a checksum of everything follows at the end
_CHECKSUM = struct.Struct(">I")
_FILLER = bytes(range(256))
RECORD_BYTES_MIN = _HEAD.size + _CHECKSUM.size


class Read(NamedTuple):
    producer: int
    sequence: int
    is_intact: bool


class Content:
    """The records of one run: makes them, and tells which of those that were read they are."""

    def __init__(self, run: str, record_bytes: int) -> None:
        self._run = bytes.fromhex(run)
        self._key_prefix = f"{run}/".encode()
        filler_bytes = max(record_bytes - RECORD_BYTES_MIN, 0)
        self._filler = (_FILLER * (filler_bytes // len(_FILLER) + 1))[:filler_bytes]

    def key(self, producer: int, sequence: int) -> bytes:
        return b"%s%d/%d" % (self._key_prefix, producer, sequence)

    def value(self, producer: int, sequence: int) -> bytes:
        body = _HEAD.pack(self._run, producer, sequence) + self._filler
        return body + _CHECKSUM.pack(crc32(body))

    def read(self, key: bytes | None, value: bytes | None) -> Read:
        """Returns which record it is: ours, ours and altered, or a foreign one."""
        by_key, by_value = self._of_key(key or b""), self._of_value(value or b"")
        if (known := by_key or by_value) is None:
            return Read(FOREIGN, crc32(value or b"", crc32(key or b"")), True)
        producer, sequence = known
        is_intact = by_key == by_value and key == self.key(*known) and value == self.value(*known)
        return Read(producer, sequence, is_intact)

    def _of_key(self, key: bytes) -> tuple[int, int] | None:
        producer, slash, sequence = key.removeprefix(self._key_prefix).partition(b"/")
        if not key.startswith(self._key_prefix) or not slash or not (producer.isdigit() and sequence.isdigit()):
            return None
        return _if_possible(int(producer), int(sequence))

    def _of_value(self, value: bytes) -> tuple[int, int] | None:
        if len(value) < RECORD_BYTES_MIN or not value.startswith(self._run):
            return None
        _, producer, sequence = _HEAD.unpack_from(value)
        return _if_possible(producer, sequence)


def _if_possible(producer: int, sequence: int) -> tuple[int, int] | None:
    return (producer, sequence) if producer < PRODUCERS_MAX and sequence < SEQUENCES_MAX else None
