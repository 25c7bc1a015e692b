"""What is claimed after which faults."""

import pytest

from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.metadata.image import (
    ImageChanges,
    PartitionImage,
    TopicChange,
    TopicImage,
    empty_image,
)
from tests.simulation.cluster.replicas.claims import Claims, DataOracle
from tests.simulation.scenarios.oracle import Sent

NAME = TopicPartition("topic", 0)
FIRST_ID = b"1" * 16


class Told:
    """Claims about one partition, whose metadata a test makes up."""

    def __init__(self, *, is_flushed: bool = False, **first: object) -> None:
        self.oracle = DataOracle([NAME], set())
        self.claims = Claims([self.oracle], {}, [NAME.topic] if is_flushed else [])
        self._partition = PartitionImage(leader=1, leader_epoch=0, partition_epoch=0, replicas=(1, 2, 3), isr=(1, 2, 3))
        self._offset = 0
        self._topic_id = FIRST_ID
        self.publish(**first)

    def create(self, topic_id: Uuid) -> None:
        self._topic_id = topic_id
        self.publish()

    def publish(self, **fields: object) -> None:
        self._offset += 1
        self._partition = self._partition._replace(**fields)  # type: ignore[arg-type]
        topic = TopicImage(NAME.topic, self._topic_id, (self._partition,))
        image = empty_image("cluster")._replace(end_offset=self._offset)
        self.claims.published(image, ImageChanges(topics=(TopicChange(topic, topic),)))


def test_a_power_cut_takes_nothing_that_another_has() -> None:
    told = Told()
    told.claims.power_was_cut(1)
    told.claims.power_was_cut(2)
    assert (told.oracle.losses, told.oracle.is_suspended) == (0, False)
    told.claims.power_was_cut(3)
    assert (told.oracle.losses, told.oracle.is_suspended) == (1, True)


def test_a_power_cut_takes_nothing_that_is_flushed() -> None:
    told = Told(is_flushed=True)
    for broker_id in (1, 2, 3):
        told.claims.power_was_cut(broker_id)
    assert not told.oracle.losses
    for broker_id in (1, 2, 3):
        told.claims.disk_was_wiped(broker_id)
    assert told.oracle.losses


def test_who_has_left_and_caught_up_has_everything_again() -> None:
    told = Told()
    told.claims.power_was_cut(1)
    told.publish(isr=(2, 3), leader=2)
    told.publish(isr=(2, 3, 1))
    told.claims.power_was_cut(2)
    told.claims.power_was_cut(3)
    assert not told.oracle.losses


def test_who_has_left_has_nothing_unless_it_is_eligible() -> None:
    without = Told(isr=(1, 2, 3))
    without.publish(isr=(1,))
    without.claims.power_was_cut(1)
    assert without.oracle.losses
    eligible = Told(isr=(1, 2, 3))
    eligible.publish(isr=(1,), eligible_leader_replicas=(2,))
    eligible.claims.power_was_cut(1)
    assert not eligible.oracle.losses


@pytest.mark.parametrize(("leader", "losses"), [(2, 0), (3, 1)])
def test_an_unclean_leader_may_have_lost_something(leader: int, losses: int) -> None:
    told = Told()
    told.publish(isr=(1, 2))
    told.publish(isr=(leader,), leader=leader)
    assert told.oracle.losses == losses


def test_one_replica_begins_anew_at_once() -> None:
    told = Told(replicas=(1,), isr=(1,))
    for losses in (1, 2):
        told.claims.power_was_cut(1)
        assert told.oracle.losses == losses
        assert not told.oracle.is_suspended


def test_all_is_claimed_when_all_is_mended() -> None:
    told = Told()
    for broker_id in (1, 2, 3):
        told.claims.power_was_cut(broker_id)
    told.claims.all_is_mended()
    assert not told.oracle.is_suspended


def test_a_topic_that_was_created_again_begins_anew() -> None:
    told = Told()
    told.oracle.acknowledged("producer", NAME, [0], 0, Sent(0, FIRST_ID))
    told.create(b"2" * 16)
    assert not told.oracle.missing()
    told.oracle.acknowledged("producer", NAME, [1], 1, Sent(0, FIRST_ID))  # late
    assert not told.oracle.missing()
    with pytest.raises(AssertionError, match="I21"):
        told.oracle.record_read(NAME, 0, b"producer 0")


def test_what_was_lost_with_a_topic_does_not_count_for_the_next() -> None:
    told = Told()
    for broker_id in (1, 2, 3):
        told.claims.power_was_cut(broker_id)
    told.create(b"2" * 16)
    assert (told.oracle.losses, told.oracle.is_suspended) == (0, False)


def test_what_is_acknowledged_is_committed() -> None:
    told = Told()
    told.oracle.committed_end = lambda partition, topic_id: 3 if topic_id == FIRST_ID else None
    sent = Sent(told.oracle.power_cuts, FIRST_ID)
    told.oracle.acknowledged("producer", NAME, [1, 2], 1, sent)
    with pytest.raises(AssertionError, match="I12"):
        told.oracle.acknowledged("producer", NAME, [3, 4], 2, sent)
