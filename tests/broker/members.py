"""A member of a classic group that does exactly what a test tells it to, over the wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.wire import RawClient

Offsets = Mapping[tuple[str, int], int]


class Member:
    def __init__(
        self, port: int, group_id: str, *, session_timeout_ms: int = 10_000, instance: str | None = None
    ) -> None:
        self.port = port
        self.client = RawClient(port)
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.instance = instance
        self.member_id = ""
        self.generation_id = -1
        self.leader = ""
        self.members: list[str] = []

    def close(self) -> None:
        self.client.close()

    def reconnect(self, port: int | None = None) -> None:
        self.close()
        self.client = RawClient(port or self.port)

    def find_coordinator(self) -> Any:
        answer = self.client.call(FindCoordinatorRequest(coordinator_keys=[self.group_id]))
        assert answer.coordinators[0].error_code == 0, answer.coordinators[0]
        return answer.coordinators[0]

    # ---- joining, in two steps where others have to join in between

    def send_join(self, metadata: bytes = b"topics", version: int = 9) -> None:
        self.client.send(self._join(metadata), version)

    def joined(self) -> Any:
        """The answer to `send_join`."""
        return self._remember(self.client.receive())

    def join(self, metadata: bytes = b"topics", version: int = 9) -> Any:
        """With the handshake that gives a new member its id."""
        answer = self._remember(self.client.call(self._join(metadata), version))
        if answer.error_code == 79:  # MEMBER_ID_REQUIRED
            answer = self._remember(self.client.call(self._join(metadata), version))
        return answer

    def _join(self, metadata: bytes) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )

    def _remember(self, answer: Any) -> Any:
        if answer.member_id:
            self.member_id = answer.member_id
        if answer.error_code == 0:
            self.generation_id, self.leader = answer.generation_id, answer.leader
            self.members = [member.member_id for member in answer.members]
        return answer

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        self.client.send(self._sync(assignments))

    def sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 5) -> Any:
        return self.client.call(self._sync(assignments), version)

    def _sync(self, assignments: Mapping[str, bytes] | None) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )

    def join_alone(self) -> None:
        """The only member of its group, with everything assigned to it."""
        assert self.join().error_code == 0
        assert self.sync({self.member_id: b"everything"}).assignment == b"everything"

    # ---- afterwards

    def heartbeat(self, version: int = 4) -> int:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        code: int = self.client.call(request, version).error_code
        return code

    def leave(self, version: int = 5) -> Any:
        if version < 3:
            return self.client.call(LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id), version)
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        return self.client.call(LeaveGroupRequest(group_id=self.group_id, members=[identity]), version)

    def commit(self, offsets: Offsets, *, metadata: str | None = "", version: int = 9) -> dict[tuple[str, int], int]:
        """The error code of each partition."""
        answer = self.client.call(
            commit_request(self.group_id, offsets, self.generation_id, self.member_id, metadata), version
        )
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }

    def committed(self, *topics: str, partitions: Sequence[int] = (0,)) -> dict[tuple[str, int], int]:
        return committed(self.client, self.group_id, *topics, partitions=partitions)


def commit_request(
    group_id: str, offsets: Offsets, generation_id: int = -1, member_id: str = "", metadata: str | None = ""
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def committed(
    client: RawClient, group_id: str, *topics: str, partitions: Sequence[int] = (0,)
) -> dict[tuple[str, int], int]:
    """Returns the offsets of the topics that are named, or of all; -1 where there is none.

    Asks again while a broker that has just started loads the group, as every client does."""
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=partitions) for name in topics] if topics else None
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=asked)])
    (group,) = client.call(request, 9).groups
    while group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        (group,) = client.call(request, 9).groups
    assert group.error_code == 0, group
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }
