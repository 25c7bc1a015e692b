"""What the controller is told of the log dirs of replicas, and how often."""

from barnabas.broker.cluster.lifecycle import BrokerLifecycle
from barnabas.broker.replicas.dir_assignments import ASSIGNMENTS_MAX, DirAssignments
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord, RemoveTopicRecord
from barnabas.replication.metadata.image import METADATA_VERSION
from barnabas.replication.metadata.image_delta import replayed
from tests.broker.slow_controller import SlowController
from tests.fakes import FakeClock, FakeReport
from tests.replication.clusters import cluster, decided, new_topic, topic_of, uuid, with_topics

GOOD, OTHER = uuid(301), uuid(302)


class Scene:
    """A broker whose controller answers when the test does."""

    def __init__(self, partitions: int = 3) -> None:
        self.image = with_topics(cluster(1, 2), new_topic("orders", partitions, 2))
        self.topic_id = topic_of(self.image, "orders").topic_id
        self.clock, self.controller = FakeClock(), SlowController()
        lifecycle = BrokerLifecycle(1, self.controller, self.clock, FakeReport(), lambda: self.image)
        lifecycle.broker_epoch = self.image.brokers[1].broker_epoch
        self.assignments = DirAssignments(lifecycle, self.controller, self.clock, lambda: self.image)

    def assign(self, *indexes: int, directory: bytes = GOOD) -> None:
        for index in indexes:
            self.assignments.assign(self.topic_id, index, directory)
        self.clock.advance(0)

    def told(self) -> dict[bytes, list[int]]:
        """What the latest request says."""
        request: AssignReplicasToDirsRequest = self.controller.requests[-1]
        return {
            directory.id: [each.partition_index for topic in directory.topics for each in topic.partitions]
            for directory in request.directories
        }

    def answer(self, *refused: int) -> None:
        results = [
            DirectoryResult(
                id=directory,
                topics=[
                    TopicResult(
                        topic_id=self.topic_id,
                        partitions=[
                            PartitionResult(
                                partition_index=index,
                                error_code=ErrorCode.UNKNOWN_TOPIC_ID if index in refused else ErrorCode.NONE,
                            )
                            for index in indexes
                        ],
                    )
                ],
            )
            for directory, indexes in self.told().items()
        ]
        self.controller.asked[-1].resolve(AssignReplicasToDirsResponse(directories=results))

    def commit(self) -> None:
        """Lets the metadata say what the controller was told."""
        self.image = replayed(self.image, decided(self.controller.requests[-1], self.image).records)


def test_one_request_is_under_way_and_what_comes_meanwhile_goes_with_the_next() -> None:
    scene = Scene()
    scene.assign(0)
    scene.assign(1)
    scene.assign(2, directory=OTHER)
    assert (len(scene.controller.requests), scene.told()) == (1, {GOOD: [0]})
    scene.answer()
    scene.clock.advance(0)
    assert (len(scene.controller.requests), scene.told()) == (2, {GOOD: [1], OTHER: [2]})


def test_what_could_not_be_told_is_told_again_after_a_pause_that_grows() -> None:
    scene = Scene()
    scene.assign(0, 1)
    scene.controller.asked[-1].fail(KafkaError("nobody is there", ErrorCode.REQUEST_TIMED_OUT))
    scene.clock.advance(99)
    assert len(scene.controller.requests) == 1
    scene.clock.advance(1)
    assert scene.told() == {GOOD: [0, 1]}
    scene.answer(1)  # it does not know the partition so far
    scene.clock.advance(199)
    assert len(scene.controller.requests) == 2
    scene.clock.advance(1)
    assert scene.told() == {GOOD: [1]}


def test_what_the_metadata_say_or_do_not_know_any_more_is_not_told() -> None:
    scene = Scene()
    scene.assign(0)
    scene.commit()
    scene.answer()
    scene.assign(0)
    assert len(scene.controller.requests) == 1
    scene.image = replayed(scene.image, [RemoveTopicRecord(topic_id=scene.topic_id)])
    scene.assign(1)
    assert len(scene.controller.requests) == 1


def test_a_cluster_whose_metadata_know_no_dirs_is_not_told() -> None:
    scene = Scene()
    scene.image = replayed(scene.image, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=16)])
    scene.assign(0)
    assert scene.controller.requests == []


def test_a_request_names_only_so_many_replicas() -> None:
    scene = Scene(ASSIGNMENTS_MAX + 1)
    scene.assign(*range(ASSIGNMENTS_MAX + 1))
    assert len(scene.told()[GOOD]) == ASSIGNMENTS_MAX
    scene.answer()
    scene.clock.advance(0)
    assert scene.told() == {GOOD: [ASSIGNMENTS_MAX]}


def test_nothing_is_told_after_the_end() -> None:
    scene = Scene()
    scene.assign(0)
    scene.assignments.close()
    scene.answer(0)
    scene.assign(1)
    scene.clock.advance(60_000)
    assert len(scene.controller.requests) == 1
