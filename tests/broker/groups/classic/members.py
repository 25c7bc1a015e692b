"""Members of classic groups for tests: what clients send, in one line each."""

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.context import ClientInfo
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.protocol.stored.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.broker.groups.harness import GroupHarness, code_of, value_of

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3000

LATEST = 9


def subscribed(*topics: str) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=topics))


ORDERS = subscribed("orders")


class Classic(GroupHarness):
    def __init__(self, config: Mapping[str, str] | None = None, *, seed: int = 0) -> None:
        super().__init__(config, seed=seed)

    @property
    def group(self) -> ClassicGroup:
        group = self.context.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    # ---- requests

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance: str | None = None,
        version: int = LATEST,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = (("range", ORDERS),),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        reason: str | None = None,
        client_id: str = "client",
    ) -> Promise[JoinGroupResponse]:
        pairs = protocols.items() if isinstance(protocols, Mapping) else protocols
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in pairs],
            reason=reason,
        )
        return self.ask(lambda machine: machine.join_group(request, ClientInfo(client_id, "/127.0.0.1", version)))

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Promise[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=receiver, assignment=assignment)
                for receiver, assignment in (assignments or {}).items()
            ],
        )
        return self.ask(lambda machine: machine.sync_group(request, _client(5)))

    def heartbeat(
        self, member_id: str, generation_id: int, *, group_id: str = GROUP, instance: str | None = None
    ) -> Promise[HeartbeatResponse]:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=instance
        )
        return self.ask(lambda machine: machine.heartbeat(request, _client(4)))

    def leave(self, *who: str | MemberIdentity, group_id: str = GROUP, version: int = 5) -> Promise[LeaveGroupResponse]:
        """Ids, or identities; one id before version 3."""
        identities = [MemberIdentity(member_id=one) if isinstance(one, str) else one for one in who]
        if version < 3:
            request = LeaveGroupRequest(group_id=group_id, member_id=identities[0].member_id)
        else:
            request = LeaveGroupRequest(group_id=group_id, members=identities)
        return self.ask(lambda machine: machine.leave_group(request, _client(version)))

    def check_commit(self, member_id: str, generation_id: int, instance: str | None = None) -> None:
        self.group.check_offset_commit(member_id, instance, generation_id, 9)

    # ---- whole steps

    def new_member_id(self, **how: Any) -> str:
        answer = self.join(**how)
        assert code_of(answer) == ErrorCode.MEMBER_ID_REQUIRED
        return answer.value.member_id

    def joining(self, count: int = 1, **how: Any) -> list[Promise[JoinGroupResponse]]:
        """So many new dynamic members, each with the id that it was given."""
        return [self.join(self.new_member_id(**how), **how) for _ in range(count)]

    def stable(self, count: int = 1, *, instances: Sequence[str] = (), **how: Any) -> list[str]:
        """A stable group of dynamic and then of static members; the ids, that of the leader first. Each is assigned its
        own id as bytes."""
        answers = self.joining(count, **how)
        answers += [self.join(instance=instance, **how) for instance in instances]
        self.advance(2 * INITIAL_DELAY_MS if len(answers) > 1 else INITIAL_DELAY_MS)
        return self.sync_all(answers)

    def sync_all(self, answers: Sequence[Promise[JoinGroupResponse]]) -> list[str]:
        joined = [value_of(answer) for answer in answers]
        leader = next(one for one in joined if one.member_id == one.leader)
        everybody = {member.member_id: member.member_id.encode() for member in leader.members}
        synced = [
            self.sync(one.member_id, one.generation_id, everybody if one is leader else None)
            for one in (leader, *(one for one in joined if one is not leader))
        ]
        for answer in synced:
            value_of(answer)
        return [leader.member_id, *(one.member_id for one in joined if one is not leader)]


def _client(api_version: int) -> ClientInfo:
    return ClientInfo("client", "/127.0.0.1", api_version)
