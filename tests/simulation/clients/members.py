"""What members of both kinds of groups do: they read what they were assigned, and commit how far they are."""

from collections.abc import Sequence

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import Failed, Place, SimulatedClient, check
from tests.simulation.clients.fetching import Fetched, fetch
from tests.simulation.clients.script import Script

COMMIT_INTERVAL_MS = 1_000
COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)

_NOT_HERE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Member(SimulatedClient):
    def __init__(self, place: Place, name: str, *, group: str, topics: Sequence[str]) -> None:
        super().__init__(place, name)
        self.group = group
        self.topics = topics

    def prepare(self) -> None:
        self.coordinator = self.link()  # one of its own: a fetch that waits must not hold up heartbeats
        self.data = self.link()
        self.member_id = ""
        self.epoch = -1
        """The generation of a classic group, the member epoch of a consumer group."""
        self.positions: dict[TopicPartition, int] = {}
        self._committed_ms = 0

    def find_coordinator(self) -> Script[None]:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        response = yield self.coordinator.send(request, FindCoordinatorResponse, max_version=4)
        (found,) = response.coordinators
        check(found.error_code)
        assert (found.host, found.port) == self.broker, found

    def fetch_offsets(self, partitions: list[TopicPartition]) -> Script[None]:
        """Begins these partitions where the group has left them."""
        before = {partition: self.oracle.last_committed(self.group, partition) for partition in partitions}
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in _by_topic(partitions).items()
        ]
        group = OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topics=topics
        )
        response = yield self.coordinator.send(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, max_version=9)
        (answer,) = response.groups
        check(answer.error_code)
        for topic in answer.topics:
            for data in topic.partitions:
                check(data.error_code)
                partition = TopicPartition(topic.name, data.partition_index)
                self.oracle.offset_fetched(self.group, partition, data.committed_offset, before[partition])
                self.positions[partition] = max(data.committed_offset, 0)

    def poll(self) -> Script[None]:
        """Reads on in what it owns, and commits now and then."""
        asked, epoch = dict(self.positions), self.epoch
        if not asked:
            yield self.sleep(200)
            return
        answers = yield from self.fetch(asked)
        if self.epoch != epoch and not self.keeps_partitions_over_epochs:
            return
        for partition, code, records, _ in answers:
            if self.positions.get(partition) != asked[partition]:
                continue  # it was taken away meanwhile
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                assert self.oracle.may_have_lost(partition), f"{self.name} at {asked[partition]} of {partition}"
                self.positions[partition] = 0
            else:
                assert not code or code in _NOT_HERE, code
            for offset, _ in records:
                self.oracle.processed(self.group, partition, offset)
                self.positions[partition] = offset + 1
        if self.clock.monotonic_ms() - self._committed_ms >= COMMIT_INTERVAL_MS:
            yield from self.commit()

    def fetch(self, positions: dict[TopicPartition, int]) -> Script[list[Fetched]]:
        return fetch(self.data, positions)

    keeps_partitions_over_epochs = False

    def commit(self) -> Script[None]:
        """Stores how far it has read."""
        positions = dict(self.positions)
        if not positions:
            return
        before = {partition: self.oracle.last_committed(self.group, partition) for partition in positions}
        epoch, newest = self.epoch, self.oracle.generations.get(self.group, -1)
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=positions[TopicPartition(name, index)],
                        committed_metadata=None,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in _by_topic(list(positions)).items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=self.epoch, member_id=self.member_id, topics=topics
        )
        response = yield self.coordinator.send(request, OffsetCommitResponse, max_version=9)
        for topic in response.topics:
            for data in topic.partitions:
                check(data.error_code)
        self._committed_ms = self.clock.monotonic_ms()
        if not self.keeps_partitions_over_epochs:  # others may be in later epochs than this one
            self.oracle.generation_has_committed(self.group, epoch, newest)
        for partition, offset in positions.items():
            if partition.topic in self.oracle.flushed_topics:  # others may begin again after a power cut
                self.oracle.commit_acknowledged(self.group, partition, offset, before[partition])

    def try_commit(self) -> Script[None]:
        """Before partitions are given away. If it does not work, they are read again by another member."""
        try:
            yield from self.commit()
        except (KafkaError, Failed):
            pass


def _by_topic(partitions: list[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics
