"""Committed offsets: what OffsetCommit, OffsetFetch and OffsetDelete decide, and what expires.

Rules, Kafka's:
- The group decides whether a member may commit: everything that it asks for, or nothing. A commit without a generation,
  where there is no group, creates one of simple consumers: empty, and without a protocol.
- Offsets of a topic that the group is subscribed to do not expire, and are not deleted.
- An offset that a transaction wrote is pending until the transaction's marker is replayed. Until then a fetch that
  requires stable offsets is answered UNSTABLE_OFFSET_COMMIT, and neither the offset expires nor is its group removed.
- An offset that was committed with another topic id than the one that is asked for belongs to another topic.
"""

from collections.abc import Iterable, Iterator, Mapping

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.machine import ClassicMachine
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.group import Group, PartitionCheck
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.batch_header import NO_PRODUCER_ID
from barnabas.protocol.errors import ErrorCode, GroupIdNotFound, IllegalGeneration
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.stored.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.types import ZERO_UUID, Uuid

_GROUP_ID_NOT_FOUND_SINCE = 9
_DEFAULT_RETENTION = -1
_NO_EXPIRY = -1
_NO_OFFSET = -1
_MS_PER_MINUTE = 60_000
_LONG_MAX = 2**63 - 1

TopicOffsets = dict[str, dict[int, OffsetCommitValue]]
"""Offsets by topic and partition."""
_NO_OFFSETS: Mapping[str, dict[int, OffsetCommitValue]] = {}


class Offsets:
    def __init__(self, context: GroupContext, classic: ClassicMachine) -> None:
        self._context = context
        self._classic = classic
        self._by_group: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[str, TopicOffsets]] = {}
        """What undecided transactions wrote, by producer id."""

    # ---- commit

    def commit(self, request: OffsetCommitRequest, client: ClientInfo) -> Decision[OffsetCommitResponse]:
        check = self._check_commit(request, client.api_version)
        now_ms = self._context.now_ms()
        retention_ms = request.retention_time_ms
        expire_timestamp = _NO_EXPIRY if retention_ms == _DEFAULT_RETENTION else min(now_ms + retention_ms, _LONG_MAX)
        records: list[GroupRecord] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                if not self._is_too_large(partition.committed_metadata):
                    code = ErrorCode.NONE
                    self._check(check, topic, partition.partition_index)
                    value = _value_of(partition, topic.topic_id, now_ms, expire_timestamp)
                    records.append(GroupRecord(_key(request.group_id, topic.name, partition.partition_index), value))
                partitions.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        return Decision(records, OffsetCommitResponse(topics=topics))

    def _check_commit(self, request: OffsetCommitRequest, api_version: int) -> PartitionCheck | None:
        """Raises if the client may not commit. A group that does not exist so far is created by the replay of its first
        offset."""
        epoch = request.generation_id_or_member_epoch
        group = self._context.groups.get(request.group_id)
        if group is not None:
            return group.check_offset_commit(request.member_id, request.group_instance_id, epoch, api_version)
        if epoch >= 0:
            error = GroupIdNotFound if api_version >= _GROUP_ID_NOT_FOUND_SINCE else IllegalGeneration
            raise error(f"there is no group {request.group_id}")
        return None

    def _check(self, check: PartitionCheck | None, topic: OffsetCommitRequestTopic, partition: int) -> None:
        if check is not None:
            known = self._context.image().topic(topic.name)
            topic_id = known.topic_id if topic.topic_id == ZERO_UUID and known is not None else topic.topic_id
            check(topic.name, topic_id, partition)

    def _is_too_large(self, metadata: str | None) -> bool:
        return metadata is not None and len(metadata) > self._context.config().offset_metadata_max_bytes

    # ---- fetch

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Returns the offsets of the topics that are named, or of all."""
        group_id = request.group_id
        group = self._context.groups.get(group_id)
        offsets = _NO_OFFSETS
        if group is not None:
            group.check_offset_fetch(request.member_id, request.member_epoch)
            offsets = self._by_group.get(group_id, _NO_OFFSETS)
        asked = _everything(offsets) if request.topics is None else request.topics

        def partition(topic: OffsetFetchRequestTopics, index: int) -> OffsetFetchResponsePartitions:
            if require_stable and self._is_pending(group_id, topic.name, index):
                return _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            value = offsets.get(topic.name, {}).get(index)
            return _no_offset(index) if value is None or _is_another(value, topic.topic_id) else _offset(index, value)

        return OffsetFetchResponseGroup(
            group_id=group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[partition(topic, index) for index in topic.partition_indexes],
                )
                for topic in asked
            ],
        )

    # ---- delete

    def delete(self, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        group = self._context.groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {request.group_id}")
        group.check_offset_delete()
        records: list[GroupRecord] = []
        topics = []
        for topic in request.topics:
            is_subscribed = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
            indexes = [partition.partition_index for partition in topic.partitions]
            if not is_subscribed:
                records += self._tombstones(request.group_id, topic.name, indexes)
            partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return Decision(records, OffsetDeleteResponse(error_code=0, topics=topics))

    def tombstones_of_group(self, group_id: str) -> list[GroupRecord]:
        return [
            GroupRecord(_key(group_id, topic, index), None)
            for topic, index in dict.fromkeys(
                (topic, index)
                for offsets in self._stores_of(group_id)
                for topic, values in offsets.items()
                for index in values
            )
        ]

    def tombstones_of_topic(self, topic: str) -> list[GroupRecord]:
        """Returns the tombstones of a deleted topic: one of the same name that may follow is another."""
        groups = {*self._by_group, *(group_id for pending in self._pending.values() for group_id in pending)}
        return [
            record
            for group_id in sorted(groups)
            for record in self._tombstones(
                group_id, topic, {index for offsets in self._stores_of(group_id) for index in offsets.get(topic, ())}
            )
        ]

    def _tombstones(self, group_id: str, topic: str, indexes: Iterable[int]) -> list[GroupRecord]:
        """Returns the tombstones of those offsets that exist."""
        stores = list(self._stores_of(group_id))
        return [
            GroupRecord(_key(group_id, topic, index), None)
            for index in indexes
            if any(index in offsets.get(topic, ()) for offsets in stores)
        ]

    def _stores_of(self, group_id: str) -> Iterator[TopicOffsets]:
        if (offsets := self._by_group.get(group_id)) is not None:
            yield offsets
        for pending in self._pending.values():
            if (offsets := pending.get(group_id)) is not None:
                yield offsets

    # ---- expiry

    def expired(self, group: Group) -> tuple[list[GroupRecord], bool]:
        """Returns the tombstones of what has expired, and whether nothing is left that keeps the group alive."""
        now_ms = self._context.now_ms()
        records: list[GroupRecord] = []
        is_all = not any(group.group_id in pending for pending in self._pending.values())
        for topic, values in self._by_group.get(group.group_id, _NO_OFFSETS).items():
            for index, value in values.items():
                if self._is_expired(group, topic, value, now_ms) and not self._is_pending(group.group_id, topic, index):
                    records.append(GroupRecord(_key(group.group_id, topic, index), None))
                else:
                    is_all = False
        return records, is_all

    def _is_expired(self, group: Group, topic: str, value: OffsetCommitValue, now_ms: int) -> bool:
        if group.is_subscribed_to(topic):
            return False
        since_ms = group.offsets_expire_since_ms(topic, value.commit_timestamp, now_ms)
        if since_ms is None:
            return False
        if value.expire_timestamp != _NO_EXPIRY:  # a client of old asked for this very time
            return now_ms >= value.expire_timestamp
        return now_ms - since_ms >= self._context.config().offsets_retention_minutes * _MS_PER_MINUTE

    # ---- replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        if value is None:
            for groups in (self._by_group, *self._pending.values()):
                _remove(groups, key)
            return
        if key.group not in self._context.groups:
            self._classic.get_or_create_simple(key.group)
        groups = self._by_group if producer_id == NO_PRODUCER_ID else self._pending.setdefault(producer_id, {})
        groups.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = value

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Replays a marker: what the transaction wrote counts from now on, or is dropped."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            for topic, values in topics.items() if is_committed else ():
                self._by_group.setdefault(group_id, {}).setdefault(topic, {}).update(values)

    def _is_pending(self, group_id: str, topic: str, index: int) -> bool:
        return any(index in pending.get(group_id, _NO_OFFSETS).get(topic, ()) for pending in self._pending.values())


def _key(group_id: str, topic: str, index: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=index)


def _value_of(
    partition: OffsetCommitRequestPartition, topic_id: Uuid, now_ms: int, expire_timestamp: int
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )


def _everything(offsets: Mapping[str, dict[int, OffsetCommitValue]]) -> list[OffsetFetchRequestTopics]:
    return [OffsetFetchRequestTopics(name=topic, partition_indexes=list(values)) for topic, values in offsets.items()]


def _no_offset(index: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=code
    )


def _offset(index: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.NONE,
    )


def _is_another(value: OffsetCommitValue, topic_id: Uuid) -> bool:
    return ZERO_UUID not in (value.topic_id, topic_id) and value.topic_id != topic_id


def _remove(groups: dict[str, TopicOffsets], key: OffsetCommitKey) -> None:
    topics = groups.get(key.group, {})
    values = topics.get(key.topic, {})
    values.pop(key.partition, None)
    if not values:
        topics.pop(key.topic, None)
    if not topics:
        groups.pop(key.group, None)
