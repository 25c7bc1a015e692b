"""A member of a classic group: it joins, assigns if it leads, keeps in touch, commits, leaves."""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.protocol.stored.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.stored.consumer_protocol import TopicPartition as AssignedTopic
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import REQUEST_TIMEOUT_MS, Failed, check
from tests.simulation.clients.members import COORDINATOR_ERRORS, Member
from tests.simulation.clients.script import Script, run_script

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 15_000
HEARTBEAT_INTERVAL_MS = 3_000
_JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class ClassicMember(Member):
    def script(self) -> Script[None]:
        while not self.is_stopping:
            try:
                yield from self.find_coordinator()
                yield from self._join()
                run_script(self._keep_in_touch(self.epoch))
                yield from self._work()
            except KafkaError:
                yield self.back_off()
            except Failed as error:
                yield from self._after(error)
        yield from self._leave()

    def _work(self) -> Script[None]:
        self._must_join = False
        while not self._must_join and not self.is_stopping:
            try:
                yield from self.poll()
            except KafkaError:
                yield self.back_off()
        yield from self.try_commit()

    def _after(self, error: Failed) -> Script[None]:
        assert error.code in _JOIN_AGAIN or error.code in COORDINATOR_ERRORS, f"{self.name}: {error}"
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.tell("is no member of {} any more", self.group)
            self.member_id = ""
        yield self.back_off()

    def _join(self) -> Script[None]:
        self.epoch, self.positions = -1, {}
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=list(self.topics)))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        joined = yield self.coordinator.send(
            request, JoinGroupResponse, max_version=6, timeout_ms=REBALANCE_TIMEOUT_MS + REQUEST_TIMEOUT_MS
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return (yield from self._join())
        check(joined.error_code)
        self.member_id = joined.member_id
        yield from self._sync(joined)

    def _sync(self, joined: JoinGroupResponse) -> Script[None]:
        assignments = []
        if joined.leader == self.member_id:
            assignments = self._assignments([member.member_id for member in joined.members])
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=assignments,
        )
        synced = yield self.coordinator.send(
            request, SyncGroupResponse, max_version=4, timeout_ms=REBALANCE_TIMEOUT_MS + REQUEST_TIMEOUT_MS
        )
        check(synced.error_code)
        self.epoch = joined.generation_id
        partitions = [
            TopicPartition(topic.topic, partition)
            for topic in decode_assignment(synced.assignment).assigned_partitions
            for partition in topic.partitions
        ]
        self.tell("has {} partitions in generation {} of {}", len(partitions), self.epoch, self.group)
        for partition in partitions:
            self.oracle.assigned(self.group, self.epoch, partition, self.member_id)
        if partitions:
            yield from self.fetch_offsets(partitions)

    def _assignments(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        partitions = [partition for partition in self.oracle.partitions if partition.topic in self.topics]
        assigned: dict[str, list[AssignedTopic]] = {member: [] for member in members}
        for number, (topic, partition) in enumerate(sorted(partitions)):
            assigned[members[number % len(members)]].append(AssignedTopic(topic=topic, partitions=[partition]))
        return [
            SyncGroupRequestAssignment(
                member_id=member, assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics))
            )
            for member, topics in assigned.items()
        ]

    def _keep_in_touch(self, generation_id: int) -> Script[None]:
        while self.epoch == generation_id and not self.has_ended:
            yield self.sleep(HEARTBEAT_INTERVAL_MS)
            if self.epoch != generation_id or self.has_ended:
                return
            request = HeartbeatRequest(group_id=self.group, generation_id=generation_id, member_id=self.member_id)
            try:
                response = yield self.coordinator.send(request, HeartbeatResponse, max_version=4)
            except KafkaError:
                continue
            if response.error_code in _JOIN_AGAIN and self.epoch == generation_id:
                self._must_join = True
                if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                return

    def _leave(self) -> Script[None]:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
        while self.member_id:
            try:
                yield self.coordinator.send(request, LeaveGroupResponse, max_version=4)
                return
            except KafkaError:
                yield self.back_off()
