import pytest

from barnabas.replication.quorum.exchange.comparison import Diverging, NeedsSnapshot, Valid, compare
from barnabas.replication.quorum.log_view import Batch, LogView, OffsetAndEpoch
from tests.replication.quorum.cores import log_of

EPOCHS = ((0, 4, 1), (4, 6, 1), (6, 9, 3))


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, Valid()),  # an empty log is a prefix of every log
        (9, 3, Valid()),
        (7, 3, Valid()),
        (6, 1, Valid()),
        (4, 1, Valid()),
        (7, 1, Diverging(OffsetAndEpoch(6, 1))),  # it has records of epoch 1 that this log does not have
        (8, 2, Diverging(OffsetAndEpoch(6, 1))),  # of epoch 2 this log has nothing
        (12, 3, Diverging(OffsetAndEpoch(9, 3))),  # it has more of epoch 3
        (3, 0, Diverging(OffsetAndEpoch(0, 0))),
    ],
)
def test_a_fetch_is_compared_with_the_log(offset: int, epoch: int, expected: object) -> None:
    assert compare(log_of(*EPOCHS), offset, epoch) == expected


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, NeedsSnapshot(OffsetAndEpoch(6, 1))),
        (4, 1, NeedsSnapshot(OffsetAndEpoch(6, 1))),  # deleted
        (6, 1, Valid()),  # exactly behind the snapshot
        (6, 0, NeedsSnapshot(OffsetAndEpoch(6, 1))),  # another record before the log's start
        (9, 3, Valid()),
        (8, 2, Diverging(OffsetAndEpoch(6, 1))),
    ],
)
def test_what_was_deleted_is_answered_with_a_snapshot(offset: int, epoch: int, expected: object) -> None:
    log = log_of(*EPOCHS)
    log.snapshots[OffsetAndEpoch(6, 1)] = 100
    log.delete_before(6)
    assert compare(log, offset, epoch) == expected


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        ((6, 1), 6),
        ((4, 1), 4),  # the leader's epoch 1 was shorter
        ((8, 1), 6),  # it was longer
        ((7, 2), 6),  # this log has nothing of epoch 2: back to the end of epoch 1
        ((8, 3), 8),
    ],
)
def test_a_follower_cuts_its_log_where_it_may_part_from_the_leaders(diverging: tuple[int, int], expected: int) -> None:
    assert log_of(*EPOCHS).truncation_point(OffsetAndEpoch(*diverging)) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((5, 2), (5, 2), True),
        ((6, 2), (5, 2), True),
        ((4, 2), (5, 2), False),
        ((1, 3), (9, 2), True),  # a later epoch counts for more than a longer log
        ((9, 2), (1, 3), False),
    ],
)
def test_logs_are_compared_by_epoch_and_then_by_offset(
    ours: tuple[int, int], theirs: tuple[int, int], expected: bool
) -> None:
    assert OffsetAndEpoch(*ours).is_up_to_date_with(OffsetAndEpoch(*theirs)) is expected


def test_a_sync_that_began_before_a_truncation_does_not_count() -> None:
    log = log_of((0, 4, 1))
    log.append(Batch(4, 9, 1))
    sync = log.begin_sync()
    log.truncate_to(4)
    log.append(Batch(4, 8, 2))
    log.synced(sync)
    assert (log.synced_offset, log.end_offset) == (4, 8)
    log.synced(log.begin_sync())
    assert log.is_synced


def test_the_epoch_before_the_start_is_that_of_the_snapshot() -> None:
    log = LogView()
    log.reset_to(OffsetAndEpoch(7, 3))
    assert log.end == OffsetAndEpoch(7, 3)
    log.append(Batch(7, 9, 4))
    assert [log.epoch_at(offset) for offset in (7, 8, 9)] == [3, 4, 4]
