"""What the files of a log say about the batches in them, read without anything of ours."""

from collections.abc import Iterator

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers in the attributes of a batch


def batches_in(segment: bytes) -> Iterator[bytes]:
    """Yields the batches, each from its offset to its last record; the length of what follows it is at byte 8."""
    position = 0
    while position < len(segment):
        end = position + 12 + int.from_bytes(segment[position + 8 : position + 12])
        yield segment[position:end]
        position = end


def compressions_in(segment: bytes) -> set[str]:
    return {COMPRESSIONS[batch[22] & 7] for batch in batches_in(segment)}


def record_counts_in(segment: bytes) -> list[int]:
    return [int.from_bytes(batch[57:61]) for batch in batches_in(segment)]
