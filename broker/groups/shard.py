"""The groups of one partition of `__consumer_offsets`: which part decides on a request, and which replays a record.

A group is of one kind at a time. Requests of the other kind's protocol go to the kind that the group is of, which knows
whether it can serve them: that is how a group moves from one protocol to the other while it runs.
"""

from collections.abc import Collection, Iterable

from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.classic_groups import ClassicGroups
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_groups import ConsumerGroups
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.offsets import Offsets
from barnabas.broker.groups.result import GroupRecord, Result
from barnabas.protocol.errors import ErrorCode, GroupIdNotFound, KafkaError
from barnabas.protocol.group_record_serde import GroupKey, GroupValue
from barnabas.protocol.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.messages import consumer_group_describe, describe_groups
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NO_PRODUCER = -1


class GroupShard:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self.classic = ClassicGroups(context)
        self.consumer = ConsumerGroups(context, self.classic)
        self.offsets = Offsets(context, self.classic)

    # ---- the classic protocol

    def join(self, request: JoinGroupRequest, client: ClientInfo) -> Result[JoinGroupResponse]:
        if self._is_consumer_group(request.group_id):
            return self.consumer.classic_join(request, client)
        return self.classic.join(request, client)

    def sync(self, request: SyncGroupRequest, client: ClientInfo) -> Result[SyncGroupResponse]:
        if self._is_consumer_group(request.group_id):
            return self.consumer.classic_sync(request, client)
        return self.classic.sync(request, client)

    def heartbeat(self, request: HeartbeatRequest, client: ClientInfo) -> Result[HeartbeatResponse]:
        if self._is_consumer_group(request.group_id):
            return self.consumer.classic_heartbeat(request, client)
        return self.classic.heartbeat(request, client)

    def leave(self, request: LeaveGroupRequest, client: ClientInfo) -> Result[LeaveGroupResponse]:
        if self._is_consumer_group(request.group_id):
            return self.consumer.classic_leave(request, client)
        return self.classic.leave(request, client)

    def _is_consumer_group(self, group_id: str) -> bool:
        return isinstance(self._context.groups.get(group_id), ConsumerGroup)

    # ---- any kind

    @property
    def groups_count(self) -> int:
        return len(self._context.groups)

    def list(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """Groups in one of the states and of one of the types; no filter lets everything through."""
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
        group = self._context.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
        return self.classic.describe(group)

    def describe_consumer(self, group_id: str) -> consumer_group_describe.DescribedGroup:
        group = self._context.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return self.consumer.describe(group)

    def delete(self, group_id: str) -> Result[DeletableGroupResult]:
        try:
            group = self._context.groups.get(group_id)
            if group is None:
                raise GroupIdNotFound(f"there is no group {group_id}")
            group.check_delete()
        except KafkaError as error:
            return Result(DeletableGroupResult(group_id=group_id, error_code=error.code))
        records = [*self.offsets.tombstones_of_group(group_id), *group.tombstones()]
        return Result(DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE), records)

    def expire(self) -> Result[None]:
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
        if records:
            self._context.report.info(
                f"{offsets} committed offsets and {groups} empty groups have expired", offsets=offsets, groups=groups
            )
        return Result(None, records)

    def on_topics_deleted(self, topics: Iterable[str]) -> Result[None]:
        """Nobody can go on from an offset in a topic that is gone."""
        return Result(None, [record for topic in topics for record in self.offsets.tombstones_of_topic(topic)])

    # ---- records

    def replay(self, key: GroupKey, value: GroupValue | None, producer_id: int = NO_PRODUCER) -> None:
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue), "the serde pairs keys and values"
            self.offsets.replay(key, value, producer_id)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue), "the serde pairs keys and values"
            self.classic.replay(key, value)
        else:
            self.consumer.replay(key, value)

    def on_loaded(self) -> None:
        self.classic.on_loaded()
        self.consumer.on_loaded()

    def on_unloaded(self) -> None:
        self.classic.on_unloaded()
        self.consumer.on_unloaded()
