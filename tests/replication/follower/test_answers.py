"""What a follower makes of an answer: tables of Kafka's rules."""

import struct

import pytest

from barnabas.protocol.errors import CorruptMessage, ErrorCode, UnknownLeaderEpoch
from barnabas.protocol.messages.fetch import EpochEndOffset, PartitionData
from barnabas.replication.follower.answers import (
    Verdict,
    batches_to_append,
    judge,
    next_backoff_ms,
    offset_after_reset,
    start_of_batch_around,
    truncation_offset,
)
from barnabas.replication.follower.fetch_session import FetchPosition

ASKED = FetchPosition(fetch_offset=10, leader_epoch=7, last_fetched_epoch=5, log_start_offset=0)


class Epochs:
    """A log of which only the epochs are known, by their start offsets."""

    def __init__(self, entries: list[tuple[int, int]], log_end_offset: int) -> None:
        self.entries = entries
        self.log_end_offset = log_end_offset

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        higher = [start for epoch, start in self.entries if epoch > leader_epoch]
        lower = [epoch for epoch, _ in self.entries if epoch <= leader_epoch]
        if not higher and leader_epoch not in [epoch for epoch, _ in self.entries]:
            return -1, -1
        return (lower[-1] if lower else leader_epoch), (higher[0] if higher else self.log_end_offset)


def answer(error_code: int = 0, diverging: tuple[int, int] | None = None) -> PartitionData:
    data = PartitionData(
        partition_index=0, error_code=error_code, high_watermark=3, aborted_transactions=None, records=b""
    )
    if diverging is not None:
        data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return data


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ErrorCode.NONE, Verdict.APPEND),
        (ErrorCode.OFFSET_OUT_OF_RANGE, Verdict.RESET),
        (ErrorCode.FENCED_LEADER_EPOCH, Verdict.STOP),  # the metadata will tell the next epoch
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Verdict.RETRY),  # the leader has yet to hear of this epoch
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_ID, Verdict.RETRY),
        (ErrorCode.INCONSISTENT_TOPIC_ID, Verdict.RETRY),
        (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.RETRY),  # the leader's disk, not ours
        (ErrorCode.CORRUPT_MESSAGE, Verdict.RETRY),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.RETRY),
    ],
)
def test_what_an_error_means(error: ErrorCode, verdict: Verdict) -> None:
    assert judge(ASKED, answer(error)) is verdict


@pytest.mark.parametrize(
    ("diverging", "verdict"),
    [
        ((4, 8), Verdict.TRUNCATE),  # the leader never had epoch 5
        ((4, 12), Verdict.TRUNCATE),  # even if its log is longer
        ((5, 9), Verdict.TRUNCATE),  # less of the same epoch
        ((5, 10), Verdict.RETRY),  # no divergence at all
        ((6, 8), Verdict.RETRY),  # later than what was asked about
        ((4, -1), Verdict.RETRY),
    ],
)
def test_only_a_divergence_that_can_be_true_cuts_the_log(diverging: tuple[int, int], verdict: Verdict) -> None:
    assert judge(ASKED, answer(0, diverging)) is verdict


def test_an_error_with_a_diverging_epoch_is_an_error() -> None:
    assert judge(ASKED, answer(ErrorCode.UNKNOWN_LEADER_EPOCH, (4, 8))) is Verdict.RETRY


@pytest.mark.parametrize(
    ("epochs", "end", "diverging", "expected"),
    [
        ([(1, 0), (2, 5)], 12, (2, 9), 9),  # both have the epoch: where the shorter one ends
        ([(1, 0), (2, 5), (4, 9)], 12, (2, 20), 9),  # the leader has more of it than we have
        ([(1, 0), (2, 5), (4, 9)], 12, (3, 7), 9),  # an epoch that we never saw: to the end of the one before it
        ([(1, 0), (4, 3)], 6, (2, 2), 3),  # two quick changes of leaders (KAFKA-6361)
        ([(4, 0)], 6, (2, 4), 0),  # all of ours is later: nothing is in common
        ([(4, 3)], 6, (2, 4), 3),
        ([(2, 0)], 6, (2, 6), 6),  # only epochs could be wrong
        ([], 0, (2, 6), 0),  # no epochs, nothing to cut
    ],
)
def test_where_a_log_is_cut(epochs: list[tuple[int, int]], end: int, diverging: tuple[int, int], expected: int) -> None:
    cut = truncation_offset(Epochs(epochs, end), EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]))
    assert cut == expected


@pytest.mark.parametrize(
    ("own_end", "leader_start", "leader_end", "expected"),
    [
        (10, 20, 30, (20, True)),  # what follows our end is deleted everywhere
        (10, 0, 5, (5, False)),  # the leader was elected uncleanly
        (10, 0, 30, (10, False)),  # it has grown since it answered: ask again
        (10, 10, 10, (10, False)),
        (10, 40, 40, (40, True)),
    ],
)
def test_where_a_log_begins_again_after_an_offset_that_the_leader_does_not_have(
    own_end: int, leader_start: int, leader_end: int, expected: tuple[int, bool]
) -> None:
    assert offset_after_reset(own_end, leader_start, leader_end) == expected


def batch(size: int, epoch: int) -> bytes:
    return struct.pack(">qii", 0, size - 12, epoch) + bytes(size - 16)


WHOLE = batch(70, 3) + batch(80, 7)


@pytest.mark.parametrize(
    ("records", "taken"),
    [
        (WHOLE, 150),
        (WHOLE + batch(90, 7)[:-1], 150),  # a leader may cut the last batch
        (WHOLE + b"\0" * 11, 150),
        (batch(70, 3) + batch(80, 8) + batch(70, 3), 70),  # the leader's log was written again meanwhile (KAFKA-18723)
        (batch(70, -1), 70),
    ],
)
def test_whole_batches_up_to_the_epoch_that_was_asked_with_are_taken(records: bytes, taken: int) -> None:
    assert batches_to_append(memoryview(records), 7) == records[:taken]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (batch(70, 3)[:-1], CorruptMessage),
        (b"\0", CorruptMessage),
        (struct.pack(">qii", 0, -20, 3) + bytes(60), CorruptMessage),
        (struct.pack(">qii", 0, 0, 3) + bytes(60), CorruptMessage),
        (batch(70, 8), UnknownLeaderEpoch),
    ],
)
def test_an_answer_without_a_batch_that_can_be_taken_is_refused(records: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        batches_to_append(memoryview(records), 7)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(4, None), (5, None), (6, 5), (7, 5), (8, None)],  # the batch holds 5 to 7
)
def test_an_empty_log_begins_with_the_batch_that_holds_its_offset(offset: int, expected: int | None) -> None:
    holds_three = struct.pack(">qiibihi", 5, 60, 1, 2, 0, 0, 2) + bytes(60)
    assert start_of_batch_around(offset, memoryview(holds_three)) == expected


def test_pauses_grow_from_a_twentieth_of_a_second() -> None:
    pauses, pause = [], 0
    for _ in range(7):
        pause = next_backoff_ms(pause, 1_000)
        pauses.append(pause)
    assert pauses == [50, 100, 200, 400, 800, 1_000, 1_000]
    assert next_backoff_ms(0, 0) == 0
