"""Kafka's checkpoint files: a version, a count, and one entry a line.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `cleaner-offset-checkpoint` and
`replication-offset-checkpoint`, which holds high watermarks, lie in a log dir and hold `topic partition offset`;
`leader-epoch-checkpoint` in a partition's directory holds `epoch start_offset`. All are version 0. They are replaced as
a whole; one that cannot be read counts as empty, and the caller says what that costs.
"""

from collections.abc import Iterable, Mapping

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"

_VERSION = "0"


class Checkpoint(NamedTuple):
    """What the four files of a log dir hold, or are to hold."""

    number: int
    recovery_points: dict[TopicPartition, int]
    log_start_offsets: dict[TopicPartition, int]
    cleaner_offsets: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]


class CorruptCheckpoint(Exception):
    """The file does not say what it should."""


def encode_checkpoint(lines: Iterable[str]) -> bytes:
    lines = list(lines)
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_checkpoint(data: bytes) -> list[list[str]]:
    """Returns the fields of each entry. An empty file is an empty checkpoint, as in Kafka."""
    try:
        lines = data.decode().splitlines()
        if len(lines) < 2:
            return []
        if lines[0] != _VERSION:
            raise CorruptCheckpoint(f"version {lines[0]!r} instead of {_VERSION}")
        if int(lines[1]) != len(lines) - 2:
            raise CorruptCheckpoint(f"{len(lines) - 2} entries instead of {lines[1]}")
    except ValueError as error:
        raise CorruptCheckpoint(str(error)) from None
    return [line.split() for line in lines[2:]]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_checkpoint(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    try:
        rows = decode_checkpoint(data)
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError as error:
        raise CorruptCheckpoint(f"malformed entry: {error}") from None
