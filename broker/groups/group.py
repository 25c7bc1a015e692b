"""What every kind of group answers for, whatever its protocol."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from barnabas.broker.groups.result import GroupRecord
from barnabas.protocol.types import Uuid

PartitionCheck = Callable[[str, Uuid, int], None]
"""Takes a topic, its id and a partition; raises what a client must be told that may not commit there."""


class GroupType(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    group_id: str
    type: GroupType

    @property
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups tell it: Stable, Empty, ..."""
        ...

    @property
    def protocol_type(self) -> str:
        """As ListGroups tells it; empty for a group of simple consumers."""
        ...

    @property
    def is_empty(self) -> bool:
        """No member is left. What is stored may expire, and the group may be deleted."""
        ...

    def has_member(self, member_id: str) -> bool: ...

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int, api_version: int
    ) -> PartitionCheck | None:
        """Raises what a client must be told that may not commit. A member that may has shown that it is alive. If it
        may commit to some partitions only, the check for each is returned."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises what a member of the consumer protocol must be told whose epoch is not the current one."""
        ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None:
        """Raises NonEmptyGroup, or GroupIdNotFound for one that is dead."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offsets_expire_since_ms(self, topic: str, commit_timestamp_ms: int, now_ms: int) -> int | None:
        """The time from which the retention of this topic's offsets counts; None while they must not expire."""
        ...

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove the group itself; its offsets have their own."""
        ...
