"""The state of a classic group: who is in it, which generation it has, and what its members agreed on.

Nothing here decides; see `machine.py`.
"""

from collections.abc import Callable, Collection
from typing import ClassVar

from barnabas.base.promise import Promise
from barnabas.broker.groups.classic.answers import join_error, sync_error
from barnabas.broker.groups.classic.member import ClassicMember, Protocols
from barnabas.broker.groups.classic.protocols import ProtocolVotes
from barnabas.broker.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    PREVIOUS_STATES,
    STABLE,
    ClassicGroupState,
)
from barnabas.broker.groups.classic.subscriptions import subscribed_topics
from barnabas.broker.groups.group import GroupType
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.protocol.stored.consumer_protocol import PROTOCOL_TYPE
from barnabas.protocol.stored.group_records import GroupMetadataKey


class ClassicGroup:
    """One classic group. `on_alive` is called when a member shows by other means than a heartbeat that it is alive."""

    type: ClassVar[GroupType] = GroupType.CLASSIC

    def __init__(
        self,
        group_id: str,
        *,
        now_ms: Callable[[], int],
        on_alive: "Callable[[ClassicGroup, ClassicMember], None]",
    ) -> None:
        """Creates an empty group. The reader of a record sets what the record says."""
        self.group_id = group_id
        self._now_ms = now_ms
        self._on_alive = on_alive
        self.state: ClassicGroupState = EMPTY
        self.previous_state = DEAD
        self.state_timestamp_ms: int | None = now_ms()
        """The time at which it came into this state; None if an old version stored the group, which does not say."""
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """The member id of each group instance id."""
        self.pending_members: set[str] = set()
        """Ids that were given out, and that nobody has joined with so far."""
        self.pending_sync_members: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that its consumers read, together; None if they are no consumers, or cannot be understood."""
        self.has_new_member = False
        """Whether somebody joined while the first rebalance was being held back."""
        self.is_storing_assignment = False
        """Whether the leader's assignment of this generation is being written."""
        self.rebalance_start_ms = 0
        self.awaiting_join_count = 0
        self._votes = ProtocolVotes()

    # ---- members

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Adds a member. The first one leads, and sets the protocol type of the group."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "it must be replaced"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, "it must be refused"
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._votes.add(member.protocols)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Removes the member, if it is one. If it waits for an answer, it gets UNKNOWN_MEMBER_ID: it may join as a new
        member."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
            self.answer_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            self._votes.remove(member.protocols)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync_members.discard(member_id)

    def replace_static_member(self, old_member_id: str, new_member_id: str) -> ClassicMember:
        """Gives the place of the old id, with its assignment, to the new one. A client that still waits under the old
        id is fenced."""
        old = self.members.pop(old_member_id)
        assert old.group_instance_id is not None, "a dynamic member has no place to hand on"
        self.answer_join(old, join_error(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self.answer_sync(old, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        new = ClassicMember(
            new_member_id,
            group_instance_id=old.group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_member_id] = new
        if self.is_leader(old_member_id):
            self.leader_id = new_member_id
        self.static_members[old.group_instance_id] = new_member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_member_id)
            self.pending_sync_members.add(new_member_id)
        return new

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._votes.remove(member.protocols)
        member.protocols = protocols
        self._votes.add(member.protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Makes a member that joined the leader if the leader did not. Returns False if no member joined."""
        if self.leader_id is not None and self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        if group_instance_id is not None:
            current_member_id = self.static_members.get(group_instance_id)
            if current_member_id is None:
                raise UnknownMemberId(f"{group_instance_id} is no static member of {self.group_id}")
            if current_member_id != member_id:
                raise FencedInstanceId(f"{group_instance_id} is {current_member_id} in {self.group_id}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id} is no member of {self.group_id}")
        return member

    # ---- answers that members wait for

    def await_join(self, member: ClassicMember, promise: Promise[JoinGroupResponse]) -> None:
        """Keeps the promise for later. A member that asks twice has given up on the first answer, which the connection
        still needs."""
        self.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.awaiting_join = promise
        self.awaiting_join_count += 1

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        if (promise := member.awaiting_join) is not None:
            member.awaiting_join = None
            self.awaiting_join_count -= 1
            promise.resolve(response)

    def await_sync(self, member: ClassicMember, promise: Promise[SyncGroupResponse]) -> None:
        self.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = promise

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answers the member's sync. Returns whether the member waited for it."""
        promise = member.awaiting_sync
        if promise is None:
            return False
        member.awaiting_sync = None
        promise.resolve(response)
        return True

    @property
    def has_all_members_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    # ---- states and protocols

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREVIOUS_STATES[PREPARING_REBALANCE]

    @property
    def is_initial_rebalance(self) -> bool:
        return self.state is PREPARING_REBALANCE and self.previous_state is EMPTY

    def transition_to(self, state: ClassicGroupState) -> None:
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id} cannot go from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = self._now_ms()

    def start_next_generation(self) -> None:
        self.generation_id += 1
        self.is_storing_assignment = False
        self.pending_sync_members.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        self.transition_to(COMPLETING_REBALANCE if self.members else EMPTY)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Returns the longest rebalance timeout of all members."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Returns whether a member with these protocols may join: every member must support one of them."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(map(self._votes.is_common, names))

    def select_protocol(self) -> str:
        return self._votes.select(member.protocols for member in self.members.values())

    def compute_subscribed_topics(self) -> None:
        if self.protocol_type != PROTOCOL_TYPE or (self.members and self.protocol_name is None):
            self.subscribed_topics = None
        else:
            self.subscribed_topics = subscribed_topics(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    # ---- what every group answers for

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int, api_version: int
    ) -> None:
        if self.state is DEAD:
            raise CoordinatorNotAvailable(f"{self.group_id} is dead")
        if generation_id_or_member_epoch < 0 and self.state is EMPTY:
            return  # a consumer that assigns itself, or an administrator
        if generation_id_or_member_epoch < 0 and not member_id and group_instance_id is None:
            raise UnknownMemberId(f"{self.group_id} has members, and only they may commit")
        member = self.check_member(member_id, group_instance_id)
        self._check_generation(generation_id_or_member_epoch)
        if self.state is COMPLETING_REBALANCE:  # it knows the generation, but not what it will own
            raise RebalanceInProgress(f"{self.group_id} waits for its assignment")
        self._on_alive(self, member)

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int
    ) -> None:
        """Does not ask whether there is a rebalance: the next owner waits for the end of the transaction."""
        if self.state is DEAD:
            raise CoordinatorNotAvailable(f"{self.group_id} is dead")
        says_who = generation_id_or_member_epoch >= 0 or member_id or group_instance_id is not None
        if not says_who or (generation_id_or_member_epoch < 0 and self.state is EMPTY):
            return
        self.check_member(member_id, group_instance_id)
        self._check_generation(generation_id_or_member_epoch)

    def _check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise IllegalGeneration(f"{self.group_id} has generation {self.generation_id}")

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound(f"{self.group_id} is dead")

    def check_offset_delete(self) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound(f"{self.group_id} is dead")
        if self.state is not EMPTY and self.protocol_type != PROTOCOL_TYPE:
            raise NonEmptyGroup(f"{self.group_id} has members, and nobody knows what they read")

    def check_delete(self) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound(f"{self.group_id} is dead")
        if self.state is not EMPTY:
            raise NonEmptyGroup(f"{self.group_id} has {len(self.members)} members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a consumer reads the topic; true for every topic if the subscriptions cannot be read."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def offsets_expire_since_ms(self, topic: str, commit_timestamp_ms: int, now_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is EMPTY:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.state is STABLE and not self.is_subscribed_to(topic) and self.protocol_type == PROTOCOL_TYPE:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(group=self.group_id), None)]
