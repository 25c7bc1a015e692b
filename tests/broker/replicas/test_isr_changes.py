"""What leaders ask of the controller, and what they make of its answers."""

import pytest

from barnabas.broker.cluster.lifecycle import BrokerLifecycle
from barnabas.broker.replicas.isr_changes import IsrChanges
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import AlteredPartition, AlteredTopic, AlterPartitionResponse
from barnabas.protocol.types import TopicPartition
from barnabas.replication.isr import IsrChange
from barnabas.replication.metadata.image import PartitionImage, empty_image
from barnabas.storage.log_config import LogConfig
from tests.broker.slow_controller import SlowController
from tests.fakes import FakeReport
from tests.storage.logs import TOPIC_ID, Broker

EPOCHS = {1: 10, 2: 20, 3: 30}
DESCRIBED = PartitionImage(leader=1, leader_epoch=4, partition_epoch=6, replicas=(1, 2, 3), isr=(1,))


class Scene:
    """Implements `Cluster`: a leader of some partitions, whose controller answers when the test does."""

    node_id = 1
    replica_lag_time_max_ms = 30_000

    def __init__(self, partitions: int = 1) -> None:
        self.storage = Broker()
        self.clock = self.storage.clock
        self.controller = SlowController()
        lifecycle = BrokerLifecycle(1, self.controller, self.clock, FakeReport(), lambda: empty_image("a cluster"))
        lifecycle.broker_epoch = EPOCHS[1]
        self.changes = IsrChanges(lifecycle, self.controller, self.clock)
        self.partitions = [self._partition(index) for index in range(partitions)]

    def _partition(self, index: int) -> LeaderPartition:
        name = TopicPartition("orders", index)
        log = self.storage.manager.create(name, TOPIC_ID, LogConfig())
        return LeaderPartition(name, TOPIC_ID, log, DESCRIBED, self)

    def active_epoch(self, broker_id: int) -> int | None:
        return EPOCHS[broker_id]

    def broker_epoch(self, broker_id: int) -> int:
        return EPOCHS[broker_id]

    def propose(self, partition: LeaderPartition, change: IsrChange) -> None:
        self.changes.propose(partition, change)

    def fetched(self, replica: int, partition: int = 0) -> None:
        leader = self.partitions[partition]
        leader.follower_fetched(replica, EPOCHS[replica], 0, 0, self.clock.monotonic_ms())

    def settle(self) -> None:
        self.clock.advance(0)

    def answer(self, *told: AlteredPartition) -> None:
        topic = AlteredTopic(topic_id=TOPIC_ID, partitions=list(told))
        self.controller.asked[-1].resolve(AlterPartitionResponse(topics=[topic]))
        self.settle()


def committed(*isr: int, index: int = 0, leader_epoch: int = 4, partition_epoch: int = 7) -> AlteredPartition:
    return AlteredPartition(
        partition_index=index,
        error_code=0,
        leader_id=1,
        leader_epoch=leader_epoch,
        isr=isr,
        partition_epoch=partition_epoch,
    )


def refused(code: ErrorCode) -> AlteredPartition:
    return AlteredPartition(partition_index=0, error_code=code)


def test_what_is_asked_for_in_one_turn_travels_together_with_every_epoch() -> None:
    scene = Scene(2)
    scene.fetched(2, 0)
    scene.fetched(3, 1)
    scene.settle()
    (request,) = scene.controller.requests
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    (topic,) = request.topics
    assert [(asked.leader_epoch, asked.partition_epoch) for asked in topic.partitions] == [(4, 6), (4, 6)]
    asked = [[(state.broker_id, state.broker_epoch) for state in part.new_isr_with_epochs] for part in topic.partitions]
    assert asked == [[(1, 10), (2, 20)], [(1, 10), (3, 30)]]


def test_the_next_change_waits_for_the_answer_to_the_first() -> None:
    scene = Scene(2)
    scene.fetched(2, 0)
    scene.settle()
    scene.fetched(2, 1)
    scene.fetched(3, 0)
    scene.settle()
    assert len(scene.controller.requests) == 1
    scene.answer(committed(1, 2))
    assert scene.partitions[0].in_sync.isr == (1, 2)
    assert [part.partition_index for part in scene.controller.requests[1].topics[0].partitions] == [1]
    scene.fetched(3, 0)
    scene.answer(committed(1, 2, index=1))
    (again,) = scene.controller.requests[2].topics[0].partitions
    assert (again.partition_index, again.partition_epoch, list(again.new_isr)) == (0, 7, [1, 2, 3])


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
def test_a_request_that_fails_as_a_whole_is_sent_again_for_ever(error: ErrorCode) -> None:
    scene = Scene()
    scene.fetched(2)
    for times in range(1, 6):
        scene.clock.advance(50)
        assert len(scene.controller.requests) == times
        scene.controller.asked[-1].fail(KafkaError("later", error))
    scene.clock.advance(50)
    scene.answer(committed(1, 2))
    assert scene.partitions[0].in_sync.isr == (1, 2)


def test_a_follower_that_cannot_join_is_asked_for_again_when_it_fetches_again() -> None:
    scene = Scene()
    scene.fetched(2)
    scene.settle()
    scene.answer(refused(ErrorCode.INELIGIBLE_REPLICA))
    assert scene.partitions[0].in_sync.maximal_isr == (1,)
    assert len(scene.controller.requests) == 1
    scene.fetched(2)
    scene.settle()
    assert len(scene.controller.requests) == 2


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_where_the_metadata_must_tell_more_nothing_is_asked_before_they_do(error: ErrorCode) -> None:
    scene = Scene()
    scene.fetched(2)
    scene.settle()
    scene.answer(refused(error))
    scene.fetched(2)
    scene.clock.advance(1_000)
    assert len(scene.controller.requests) == 1
    scene.partitions[0].adopt(DESCRIBED._replace(partition_epoch=8))
    scene.fetched(2)
    scene.settle()
    assert scene.controller.requests[1].topics[0].partitions[0].partition_epoch == 8


def test_any_other_refusal_is_tried_again() -> None:
    scene = Scene()
    scene.fetched(2)
    scene.settle()
    scene.answer(refused(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert len(scene.controller.requests) == 2


def test_an_answer_from_a_later_epoch_waits_for_the_metadata() -> None:
    scene = Scene()
    scene.fetched(2)
    scene.settle()
    scene.answer(committed(1, 2, leader_epoch=5))
    assert scene.partitions[0].in_sync.isr == (1,)


def test_after_the_end_nothing_is_asked() -> None:
    scene = Scene()
    scene.fetched(2)
    scene.changes.close()
    scene.clock.advance(1_000)
    assert scene.controller.requests == []
