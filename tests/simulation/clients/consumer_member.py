"""A member of a consumer group: heartbeats bring it what it owns, and say what it has given up."""

from collections.abc import Callable, Sequence

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.types import TopicPartition, Uuid
from tests.simulation.clients.client import Failed, check
from tests.simulation.clients.members import COORDINATOR_ERRORS, Member
from tests.simulation.clients.script import Script, run_script

REBALANCE_TIMEOUT_MS = 15_000
_LEAVE_EPOCH = -1
_JOIN_AGAIN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ConsumerMember(Member):
    keeps_partitions_over_epochs = True

    def prepare(self) -> None:
        super().prepare()
        self.member_id = f"{self.name}-life-{self.machine.lives}"
        self.epoch = 0
        self._topic_names: dict[Uuid, str] = {}

    def script(self) -> Script[None]:
        yield from self._insist(self._learn_topics)
        yield from self._insist(self.find_coordinator)
        run_script(self._poll())
        while not self.is_stopping:
            try:
                interval_ms = yield from self._heartbeat()
                yield self.sleep(interval_ms)
            except KafkaError:
                yield self.back_off()
                yield from self._insist(self.find_coordinator)
            except Failed as error:
                self._after(error)
                yield self.back_off()
                if error.code in COORDINATOR_ERRORS:
                    yield from self._insist(self.find_coordinator)
        yield from self.try_commit()
        yield from self._leave()

    def _insist(self, step: Callable[[], Script[None]]) -> Script[None]:
        while True:
            try:
                return (yield from step())
            except (KafkaError, Failed):
                yield self.back_off()

    def _learn_topics(self) -> Script[None]:
        topics = [MetadataRequestTopic(name=name) for name in self.topics]
        response = yield self.data.send(MetadataRequest(topics=topics), MetadataResponse, max_version=12)
        for topic in response.topics:
            check(topic.error_code)
            self._topic_names[topic.topic_id] = topic.name or ""

    def _after(self, error: Failed) -> None:
        if error.code in _JOIN_AGAIN:
            self.tell("has to join {} again: {}", self.group, error.code.name)
            self.epoch, self.positions = 0, {}
        else:
            assert error.code in COORDINATOR_ERRORS, f"{self.name}: {error}"

    def _heartbeat(self) -> Script[int]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=list(self.topics),
            topic_partitions=self._owned(),
        )
        response = yield self.coordinator.send(request, ConsumerGroupHeartbeatResponse, max_version=1)
        check(response.error_code)
        if response.member_epoch != self.epoch:
            self.tell("is in epoch {} of {}", response.member_epoch, self.group)
        self.epoch = response.member_epoch
        if response.assignment is not None and (yield from self._take(response.assignment.topic_partitions)):
            return 0  # says at once what it has now
        interval_ms: int = response.heartbeat_interval_ms
        return interval_ms

    def _owned(self) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._topic_names.items()}
        owned: dict[Uuid, list[int]] = {}
        for topic, partition in self.positions:
            owned.setdefault(ids[topic], []).append(partition)
        return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in owned.items()]

    def _take(self, assigned: Sequence[TopicPartitions]) -> Script[bool]:
        """Gives up what is not assigned any more, and begins what is new; returns whether anything changed."""
        target = [
            TopicPartition(self._topic_names[topic.topic_id], partition)
            for topic in assigned
            for partition in topic.partitions
        ]
        for partition in target:
            self.oracle.assigned(self.group, self.epoch, partition, self.member_id)
        lost = [partition for partition in self.positions if partition not in target]
        new = [partition for partition in target if partition not in self.positions]
        if lost:
            yield from self.try_commit()
            for partition in lost:
                self.positions.pop(partition, None)
        if new:
            yield from self.fetch_offsets(new)
        if lost or new:
            self.tell("has {} partitions of {}", len(self.positions), self.group)
        return bool(lost or new)

    def _poll(self) -> Script[None]:
        while not self.is_stopping:
            try:
                yield from self.poll()
            except KafkaError:
                yield self.back_off()
            except Failed as error:
                if error.code is not ErrorCode.STALE_MEMBER_EPOCH:  # the next heartbeat brings another
                    self._after(error)
                yield self.back_off()

    def _leave(self) -> Script[None]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=_LEAVE_EPOCH
        )
        yield from self._insist(lambda: self._send_leave(request))

    def _send_leave(self, request: ConsumerGroupHeartbeatRequest) -> Script[None]:
        yield self.coordinator.send(request, ConsumerGroupHeartbeatResponse, max_version=1)
