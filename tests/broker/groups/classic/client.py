"""Consumers of the classic protocol, in a group of either kind: they join, assign if they lead, sync, and heartbeat."""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.base.promise import Promise
from barnabas.broker.groups.context import ClientInfo
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.broker.groups.consumer.client import GROUP
from tests.broker.groups.harness import GroupHarness, code_of

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
SESSION_MS = 30_000
REBALANCE_MS = 60_000
ByTopic = dict[str, frozenset[int]]


def client(version: int) -> ClientInfo:
    return ClientInfo("classic-client", "/127.0.0.1", version)


def assignment_bytes(partitions: Mapping[str, Iterable[int]], user_data: bytes | None = None) -> bytes:
    topics = [TopicPartition(topic=topic, partitions=sorted(numbers)) for topic, numbers in partitions.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data), 1)


def partitions_in(data: bytes) -> ByTopic:
    topics = decode_assignment(data).assigned_partitions if data else ()
    return {topic.topic: frozenset(topic.partitions) for topic in topics}


class ClassicConsumer:
    """Eager: it gives everything up before it joins. Tests say what one owns that does not."""

    def __init__(
        self,
        harness: GroupHarness,
        *names: str,
        instance_id: str | None = None,
        protocols: Sequence[str] = ("range",),
    ) -> None:
        self.harness = harness
        self.names = list(names)
        self.instance_id = instance_id
        self.protocols = protocols
        self.start_over()

    def start_over(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.owned: ByTopic = {}
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None

    # ---- requests

    def join(self, owned: Mapping[str, Iterable[int]] | None = None) -> Promise[JoinGroupResponse]:
        topics = [TopicPartition(topic=topic, partitions=sorted(numbers)) for topic, numbers in (owned or {}).items()]
        subscription = ConsumerProtocolSubscription(topics=self.names, owned_partitions=topics)
        metadata = encode_subscription(subscription, 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
        )
        return self.harness.ask(lambda shard: shard.join_group(request, client(JOIN_VERSION)))

    def sync(
        self,
        assignments: Mapping[str, bytes] | None = None,
        *,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Promise[SyncGroupResponse]:
        given = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=given,
        )
        return self.harness.ask(lambda shard: shard.sync_group(request, client(SYNC_VERSION)))

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return code_of(self.harness.ask(lambda shard: shard.heartbeat(request, client(HEARTBEAT_VERSION))))

    def leave(self) -> None:
        leave(self.harness, MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id))
        self.start_over()

    # ---- what a client does by itself

    def beat(self) -> None:
        """One round: whatever it is time for."""
        if self.joining is not None:
            self._after_join()
        elif self.syncing is not None:
            self._after_sync()
        elif not self.member_id or self.generation_id < 0:
            self._join()
        else:
            code = self.heartbeat()
            if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
                self._join()
            elif code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
                self.start_over()

    def _join(self) -> None:
        self.owned = {}
        self.joining = self.join()
        self._after_join()

    def _after_join(self) -> None:
        if self.joining is None or not self.joining.done:
            return
        answer, self.joining = self.joining, None
        code = code_of(answer)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.value.member_id
            self._join()
        elif code == ErrorCode.NONE:
            self.member_id, self.generation_id = answer.value.member_id, answer.value.generation_id
            self.syncing = self.sync(self._assign(answer.value))
            self._after_sync()
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            self.start_over()

    def _after_sync(self) -> None:
        if self.syncing is None or not self.syncing.done:
            return
        answer, self.syncing = self.syncing, None
        code = code_of(answer)
        if code == ErrorCode.NONE:
            self.owned = partitions_in(answer.value.assignment)
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.NOT_COORDINATOR):
            self.generation_id = -1
        else:
            self.start_over()

    def _assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """As a leader: each topic's partitions in turn to those who read it."""
        given: dict[str, dict[str, set[int]]] = {member.member_id: {} for member in joined.members}
        readers: dict[str, list[str]] = {}
        for member in joined.members:
            for topic in decode_subscription(member.metadata).topics:
                readers.setdefault(topic, []).append(member.member_id)
        for name, member_ids in readers.items():
            topic_image = self.harness.image.topic(name)
            for number in range(len(topic_image.partitions) if topic_image is not None else 0):
                given[member_ids[number % len(member_ids)]].setdefault(name, set()).add(number)
        return {member_id: assignment_bytes(partitions) for member_id, partitions in given.items()}


def leave(harness: GroupHarness, *identities: MemberIdentity) -> Promise[LeaveGroupResponse]:
    request = LeaveGroupRequest(group_id=GROUP, members=identities)
    return harness.ask(lambda shard: shard.leave_group(request, client(LEAVE_VERSION)))
