"""The invariants of replicas see what they are there for."""

import pytest

from tests.simulation.cluster.replicas.history import Batch, History, enough_are_in_sync, records_stay_in_their_topic


def batch(offset: int, leader_epoch: int = 0, *, crc: int = 0, sequence: int | None = None) -> Batch:
    return Batch(offset, offset, leader_epoch, crc, (7, 0, offset if sequence is None else sequence))


@pytest.fixture
def history() -> History:
    history = History("topic-0")
    history.committed_by_leader(1, [batch(0), batch(1)])
    return history


def test_an_epoch_has_one_leader(history: History) -> None:
    history.led(1, leader_epoch=4)
    history.led(2, leader_epoch=5)
    with pytest.raises(AssertionError, match="I8"):
        history.led(2, leader_epoch=4)


def test_what_is_committed_is_the_same_everywhere(history: History) -> None:
    history.committed_by_follower(2, 2, [batch(0), batch(1)])
    with pytest.raises(AssertionError, match="I9"):
        history.committed_by_follower(2, 2, [batch(1, crc=1)])


def test_what_is_committed_has_no_gap(history: History) -> None:
    with pytest.raises(AssertionError, match="I9"):
        history.committed_by_leader(1, [batch(3)])


def test_a_leader_has_what_was_committed_before_its_epoch(history: History) -> None:
    history.elected(2, 1, [batch(0), batch(1), batch(2)])
    history.elected(2, 0, [])  # nothing that it did not commit itself
    with pytest.raises(AssertionError, match="I10"):
        history.elected(2, 1, [batch(0)])


def test_in_sync_replicas_have_what_is_committed(history: History) -> None:
    history.ends, history.durable = {1: 2, 2: 2}, {1: 2, 2: 1}
    history.in_sync_have(2, [1, 2], is_durable=False)
    with pytest.raises(AssertionError, match="I13"):
        history.in_sync_have(2, [1, 2], is_durable=True)
    with pytest.raises(AssertionError, match="I13"):
        history.in_sync_have(2, [1, 2, 3], is_durable=False)


def test_a_follower_knows_no_more_than_its_leaders(history: History) -> None:
    with pytest.raises(AssertionError, match="I13"):
        history.committed_by_follower(2, 3, [])


def test_a_sequence_is_committed_once(history: History) -> None:
    with pytest.raises(AssertionError, match="I15"):
        history.committed_by_leader(1, [batch(2, sequence=1)])


def test_nothing_is_committed_with_too_few() -> None:
    enough_are_in_sync("topic-0", (1, 2), 2)
    with pytest.raises(AssertionError, match="I12"):
        enough_are_in_sync("topic-0", (1,), 2)


def test_a_log_has_what_its_topic_had() -> None:
    records_stay_in_their_topic("topic-0", 1, 5, 5)
    with pytest.raises(AssertionError, match="I21"):
        records_stay_in_their_topic("topic-0", 1, 6, 5)


def test_who_joins_has_what_is_committed(history: History) -> None:
    history.elected(1, 3, [batch(0), batch(1)])
    history.joins(2, leader_epoch=3, end_offset=2)
    history.joins(2, leader_epoch=2, end_offset=1)  # as somebody asks who has been deposed
    with pytest.raises(AssertionError, match="I10"):
        history.joins(2, leader_epoch=3, end_offset=1)
