"""What a follower makes of a leader's answer about one partition. Pure: it reads values and says what to do.

Rules (KIP-101, KIP-279, KIP-595):
- A log is cut where it parts from the leader's: at the end of the latest epoch that both have, as the diverging epoch
  of the answer tells. Never at the high watermark, which may lie before records that are committed.
- Of an answer with a diverging epoch nothing else is taken: its high watermark and its log start belong to another log.
- Of the records, whole batches are taken up to the first whose epoch is later than the epoch that was asked with: the
  leader's log was cut and written again after it had chosen what to send (KAFKA-18723).
- An epoch that the leader has left behind stops the partition until the metadata tell the next one. Everything else
  that is wrong is tried again.
"""

from enum import Enum
from struct import Struct
from typing import Protocol

from barnabas.protocol.errors import CorruptMessage, ErrorCode, UnknownLeaderEpoch
from barnabas.protocol.messages.fetch import EpochEndOffset, PartitionData
from barnabas.replication.follower.fetch_session import FetchPosition

_LENGTH_AND_EPOCH = Struct(">ii")
_BASE_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_LENGTH_AT = 8
_LAST_OFFSET_DELTA_AT = 23
_LOG_OVERHEAD = 12


class Verdict(Enum):
    APPEND = "append"
    TRUNCATE = "truncate"
    RESET = "reset"
    """The offset is not in the leader's log: ask where that begins and ends."""
    RETRY = "retry"
    STOP = "stop"
    """The metadata will tell of a later epoch."""


class EpochEnds(Protocol):
    """The part of a log that says where its epochs end."""

    @property
    def log_end_offset(self) -> int: ...

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Returns the largest epoch not above this one and where it ended; (-1, -1) if that is not known."""
        ...


def judge(position: FetchPosition, data: PartitionData) -> Verdict:
    """Says what to do with an answer to what was asked at this position."""
    error_code = data.error_code
    if error_code == ErrorCode.NONE:
        if data.diverging_epoch.epoch < 0:
            return Verdict.APPEND
        return Verdict.TRUNCATE if _can_diverge(position, data.diverging_epoch) else Verdict.RETRY
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Verdict.RESET
    return Verdict.STOP if error_code == ErrorCode.FENCED_LEADER_EPOCH else Verdict.RETRY


def _can_diverge(position: FetchPosition, diverging: EpochEndOffset) -> bool:
    """Returns whether a leader can have said so: it has an earlier epoch, or less of this one."""
    if diverging.end_offset < 0 or diverging.epoch > position.last_fetched_epoch:
        return False
    return diverging.epoch < position.last_fetched_epoch or diverging.end_offset < position.fetch_offset


def truncation_offset(log: EpochEnds, diverging: EpochEndOffset) -> int:
    """Returns where to cut the log. If the leader's epoch is not here, the next fetch asks about an earlier one."""
    epoch, end_offset = log.end_offset_for_epoch(diverging.epoch)
    if epoch < 0:
        return min(diverging.end_offset, log.log_end_offset)
    if epoch != diverging.epoch:
        return min(end_offset, log.log_end_offset)
    return min(diverging.end_offset, end_offset, log.log_end_offset)


def offset_after_reset(log_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> tuple[int, bool]:
    """Returns where the log ends after its offset was out of the leader's range, and whether all of it goes: what lies
    before the leader's start is gone for everybody. A leader with less than this log was elected uncleanly."""
    if leader_end_offset < log_end_offset:
        return leader_end_offset, False
    return max(leader_start_offset, log_end_offset), leader_start_offset > log_end_offset


def batches_to_append(records: memoryview, leader_epoch: int) -> memoryview:
    """Returns the whole batches of epochs up to this one. Raises if there is none: a leader sends at least one whole
    batch, and may cut the last."""
    size, end = len(records), 0
    while end + _LENGTH_AT + _LENGTH_AND_EPOCH.size <= size:
        length, epoch = _LENGTH_AND_EPOCH.unpack_from(records, end + _LENGTH_AT)
        next_end = end + _LOG_OVERHEAD + length
        if length <= 0 or next_end > size:
            break
        if epoch > leader_epoch:
            if end:
                break
            raise UnknownLeaderEpoch(f"a batch of epoch {epoch} in answer to epoch {leader_epoch}")
        end = next_end
    if not end:
        raise CorruptMessage(f"{size} bytes that hold no whole batch")
    return records[:end]


def start_of_batch_around(offset: int, batches: memoryview) -> int | None:
    """Returns where the first batch begins if it holds the offset, but does not begin there. A log may start inside a
    batch, and then an empty follower gets the batch whole (KAFKA-6975)."""
    (base_offset,) = _BASE_OFFSET.unpack_from(batches)
    if base_offset >= offset or len(batches) < _LAST_OFFSET_DELTA_AT + _INT32.size:
        return None
    (last_offset_delta,) = _INT32.unpack_from(batches, _LAST_OFFSET_DELTA_AT)
    return base_offset if base_offset >= 0 and offset <= base_offset + last_offset_delta else None


def next_backoff_ms(backoff_ms: int, max_ms: int) -> int:
    """Returns the pause after one more failure: short at first, because most of what fails is over in a moment."""
    return min(max(2 * backoff_ms, 50), max_ms)
