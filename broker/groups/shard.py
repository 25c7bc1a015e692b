"""The groups of one partition of `__consumer_offsets`: which part decides on a request, and which replays a record.

A group is of one kind at a time, and each kind has a machine. A further kind is one more line in the table.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.machine import ClassicMachine
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.machine import ConsumerMachine
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.group import Group, GroupMachine, GroupType
from barnabas.broker.groups.offsets import Offsets
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import ErrorCode, GroupIdNotFound, KafkaError
from barnabas.protocol.messages import consumer_group_describe, describe_groups
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.stored.group_records import OffsetCommitKey

G = TypeVar("G", bound=Group)
Replay = Callable[[Any, Any], None]


class GroupShard:
    """A state machine of the coordinator runtime."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self.classic = ClassicMachine(context)
        self.consumer = ConsumerMachine(context, self.classic)
        self.offsets = Offsets(context, self.classic)
        self._machines: dict[GroupType, GroupMachine] = {
            GroupType.CLASSIC: self.classic,
            GroupType.CONSUMER: self.consumer,
        }
        self._replays: dict[type, Replay] = {
            key: machine.replay for machine in self._machines.values() for key in machine.record_keys
        }

    # ---- the classic protocol

    def _machine_of(self, group_id: str) -> GroupMachine:
        """Returns the machine of the group's kind. A group that does not exist so far would be a classic one."""
        group = self._context.groups.get(group_id)
        return self.classic if group is None else self._machines[group.type]

    def join_group(self, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]:
        return self._machine_of(request.group_id).join_group(request, client)

    def sync_group(self, request: SyncGroupRequest, client: ClientInfo) -> Decision[SyncGroupResponse]:
        return self._machine_of(request.group_id).sync_group(request, client)

    def heartbeat(self, request: HeartbeatRequest, client: ClientInfo) -> Decision[HeartbeatResponse]:
        return self._machine_of(request.group_id).heartbeat(request, client)

    def leave_group(self, request: LeaveGroupRequest, client: ClientInfo) -> Decision[LeaveGroupResponse]:
        return self._machine_of(request.group_id).leave_group(request, client)

    # ---- any kind

    def list(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """Returns the groups in one of the states and of one of the types; without a filter, all of them."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {type_.lower() for type_ in types}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type,
            )
            for group in self._context.groups.values()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.type in wanted_types)
        ]

    def describe_classic(self, group_id: str) -> describe_groups.DescribedGroup:
        return self.classic.describe(self._existing(group_id, ClassicGroup))

    def describe_consumer(self, group_id: str) -> consumer_group_describe.DescribedGroup:
        return self.consumer.describe(self._existing(group_id, ConsumerGroup))

    def _existing(self, group_id: str, kind: type[G]) -> G:
        group = self._context.find(group_id, kind)
        if group is not None:
            return group
        is_another = group_id in self._context.groups
        why = f"is not a {kind.type} group." if is_another else "not found."
        raise GroupIdNotFound(f"Group {group_id} {why}")

    def delete(self, group_id: str) -> Decision[DeletableGroupResult]:
        try:
            group = self._context.groups.get(group_id)
            if group is None:
                raise GroupIdNotFound(f"there is no group {group_id}")
            group.check_delete()
        except KafkaError as error:
            message = error.message or None
            return Decision((), DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=message))
        records = [*self.offsets.tombstones_of_group(group_id), *group.tombstones()]
        return Decision(records, DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE))

    def expire(self) -> Decision[None]:
        """Removes offsets that have expired, and empty groups without any."""
        records: list[GroupRecord] = []
        offsets = groups = 0
        for group in list(self._context.groups.values()):
            expired, is_all = self.offsets.expired(group)
            offsets += len(expired)
            records += expired
            if is_all and group.is_empty:
                records += group.tombstones()
                groups += 1

        def report() -> None:
            if records:
                text = f"{offsets} committed offsets and {groups} empty groups have expired"
                self._context.report.info(text, offsets=offsets, groups=groups)

        return Decision(records, None, on_appended=report)

    def on_topics_created(self) -> Decision[None]:
        """Notes that regular expressions may stand for more topics from now on."""
        self._context.topics_came_at = self._context.image().end_offset
        return Decision((), None)

    def on_topics_deleted(self, topics: Iterable[str]) -> Decision[None]:
        """Removes the offsets in topics that are gone: nobody can go on from there."""
        return Decision(self.offsets.tombstones_of_topics(set(topics)), None)

    # ---- records

    def replay(self, key: Any, value: Any, offset: int, producer_id: int) -> None:
        if type(key) is OffsetCommitKey:
            self.offsets.replay(key, value, offset, producer_id)
        else:
            self._replays[type(key)](key, value)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        self.offsets.end_transaction(producer_id, is_committed=is_committed)

    def on_loaded(self) -> None:
        self._context.topics_came_at = self._context.image().end_offset  # when they came is not known here
        for machine in self._machines.values():
            machine.on_loaded()

    def on_unloaded(self) -> None:
        for machine in self._machines.values():
            machine.on_unloaded()

    def counts(self) -> dict[str, int]:
        return {"groups": len(self._context.groups)}
