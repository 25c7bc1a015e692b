"""What every kind of group must be able to say, and what the machine of each kind decides."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from barnabas.broker.client_info import ClientInfo
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.types import Uuid

PartitionCheck = Callable[[str, Uuid, int], None]
"""Takes a topic, its id and a partition. Raises if the member may not commit there."""


class GroupType(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    group_id: str
    type: ClassVar[GroupType]

    @property
    def state_name(self) -> str:
        """Returns the state in the words of ListGroups and DescribeGroups: Stable, Empty, ..."""
        ...

    @property
    def protocol_type(self) -> str:
        """Returns the protocol type as ListGroups shows it; empty for a group of simple consumers."""
        ...

    @property
    def is_empty(self) -> bool:
        """Returns whether no member is left: then stored offsets may expire, and the group may be deleted."""
        ...

    def has_member(self, member_id: str) -> bool: ...

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int, api_version: int
    ) -> PartitionCheck | None:
        """Raises if the client may not commit; a valid commit counts as a heartbeat. Returns a check for each partition
        where the member may commit to some of them only."""
        ...

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int
    ) -> PartitionCheck | None:
        """Raises if the client may not commit in a transaction, as above. One that does not say who it is may: clients
        of old could not. It does not count as a heartbeat."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises if a member of the consumer protocol asks with an epoch that is not its current one."""
        ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None:
        """Raises NonEmptyGroup, or GroupIdNotFound for a group that is dead."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offsets_expire_since_ms(self, topic: str, commit_timestamp_ms: int, now_ms: int) -> int | None:
        """Returns the time from which the retention of this topic's offsets counts; None while they must not expire."""
        ...

    def tombstones(self) -> list[GroupRecord]:
        """Returns the records that remove the group itself; its offsets have their own."""
        ...


class GroupMachine(Protocol):
    """The groups of one kind. Requests of the classic protocol reach whatever kind the group is of: each kind knows
    whether it can serve them, and that is how a group moves from one protocol to the other while it runs."""

    record_keys: ClassVar[tuple[type, ...]]
    """The types of record keys that this machine replays."""

    def join_group(self, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]: ...

    def sync_group(self, request: SyncGroupRequest, client: ClientInfo) -> Decision[SyncGroupResponse]: ...

    def heartbeat(self, request: HeartbeatRequest, client: ClientInfo) -> Decision[HeartbeatResponse]: ...

    def leave_group(self, request: LeaveGroupRequest, client: ClientInfo) -> Decision[LeaveGroupResponse]: ...

    def replay(self, key: Any, value: Any) -> None: ...

    def on_loaded(self) -> None: ...

    def on_unloaded(self) -> None: ...
