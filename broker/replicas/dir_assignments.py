"""Tells the controller in which log dir each replica of this broker lies, where it does not know (KIP-858).

Rules:
- The controller knows the dir of a broker that has one. A broker with several chooses; and a dir that was replaced has
  another id, so that what was in it lies elsewhere now.
- It is told even if the dir has failed: it could not know otherwise that the replica is gone.
- One request is under way at a time; what is to be told meanwhile goes with the next one. What could not be told is
  told again, for as long as it is true and the metadata say something else.
"""

from collections.abc import Callable, Mapping

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise
from barnabas.broker.cluster.lifecycle import BrokerLifecycle
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.controller.partitions.directories import are_known, directory_of
from barnabas.replication.metadata.image import MetadataImage

ASSIGNMENTS_MAX = 2_250
"""How many replicas one request may name, as in Kafka."""
_RETRY_MS = 100
_RETRY_MAX_MS = 10_000

Key = tuple[Uuid, int]


class DirAssignments:
    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        controller: ControllerChannel,
        clock: Clock,
        image: Callable[[], MetadataImage],
    ) -> None:
        """Takes `image`, which returns the metadata that this broker has applied."""
        self._lifecycle = lifecycle
        self._controller = controller
        self._clock = clock
        self._image = image
        self._wanted: dict[Key, Uuid] = {}
        self._is_scheduled = False
        """Whether a request is under way, or will be in a moment."""
        self._pause_ms = _RETRY_MS
        self._is_closed = False

    def assign(self, topic_id: Uuid, index: int, directory: Uuid) -> None:
        """Tells the controller that this broker's replica lies in this dir."""
        self._wanted[topic_id, index] = directory
        self._send_later(0)

    def close(self) -> None:
        """Tells nothing any more."""
        self._is_closed = True
        self._wanted.clear()

    def _send_later(self, delay_ms: int) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._clock.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._wanted = {key: directory for key, directory in self._wanted.items() if self._is_news(key, directory)}
        if not self._wanted or self._is_closed:
            self._is_scheduled = False
            return
        told = dict(list(self._wanted.items())[:ASSIGNMENTS_MAX])
        for key in told:
            del self._wanted[key]
        request = AssignReplicasToDirsRequest(
            broker_id=self._lifecycle.node_id,
            broker_epoch=self._lifecycle.broker_epoch,
            directories=_directories(told),
        )
        answered = self._controller.submit(request, own_context(request))
        answered.when_done(lambda answer: self._answered(told, answer))

    def _is_news(self, key: Key, directory: Uuid) -> bool:
        """Returns whether the metadata have this replica, and somewhere else."""
        image, (topic_id, index) = self._image(), key
        topic = image.topics_by_id.get(topic_id)
        if topic is None or index >= len(topic.partitions) or not are_known(image):
            return False
        partition, node_id = topic.partitions[index], self._lifecycle.node_id
        return node_id in partition.replicas and directory_of(partition, node_id) != directory

    def _answered(self, told: dict[Key, Uuid], answer: Promise[AssignReplicasToDirsResponse]) -> None:
        self._is_scheduled = False
        refused = told if answer.error is not None else _refused(told, answer.value)
        self._wanted = refused | self._wanted
        if not refused:
            self._pause_ms = _RETRY_MS
            if self._wanted:
                self._send_later(0)
        else:
            self._send_later(self._pause_ms)
            self._pause_ms = min(2 * self._pause_ms, _RETRY_MAX_MS)


def _refused(told: Mapping[Key, Uuid], response: AssignReplicasToDirsResponse) -> dict[Key, Uuid]:
    return {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
        if partition.error_code != ErrorCode.NONE and (topic.topic_id, partition.partition_index) in told
    }


def _directories(told: Mapping[Key, Uuid]) -> list[AssignedDirectory]:
    found: dict[Uuid, dict[Uuid, list[AssignedPartition]]] = {}
    for (topic_id, index), directory in told.items():
        partitions = found.setdefault(directory, {}).setdefault(topic_id, [])
        partitions.append(AssignedPartition(partition_index=index))
    return [
        AssignedDirectory(
            id=directory,
            topics=[AssignedTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        )
        for directory, topics in found.items()
    ]
