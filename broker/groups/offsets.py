"""Committed offsets: what OffsetCommit, OffsetFetch and OffsetDelete decide, and what expires.

Rules, Kafka's:
- The group decides whether a member may commit: everything that it asks for, or nothing. A commit without a generation,
  where there is no group, creates one of simple consumers: empty, and without a protocol.
- Offsets of a topic that the group is subscribed to do not expire, and are not deleted.
- A commit in a transaction is refused with ILLEGAL_GENERATION also by the epochs of the consumer protocol, except to
  clients of version 6, and a rebalance does not stop it.
- An offset that a transaction wrote is pending until the transaction's marker is replayed. Until then a fetch that
  requires stable offsets is answered UNSTABLE_OFFSET_COMMIT, and neither the offset expires nor is its group removed.
- An offset that was committed with another topic id than the one that is asked for belongs to another topic.
"""

from collections.abc import Collection, Iterable, Mapping

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.machine import ClassicMachine
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.group import Group, PartitionCheck
from barnabas.broker.groups.offset_store import NO_OFFSETS, OffsetStore, StoredOffset
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.batch_header import NO_PRODUCER_ID
from barnabas.protocol.errors import ErrorCode, GroupIdNotFound, IllegalGeneration, StaleMemberEpoch
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
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
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.stored.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.types import ZERO_UUID, Uuid

_GROUP_ID_NOT_FOUND_SINCE = 9
_MEMBER_ERRORS_IN_TRANSACTIONS_SINCE = 6
_DEFAULT_RETENTION = -1
_NO_EXPIRY = -1
_NO_OFFSET = -1
_MS_PER_MINUTE = 60_000
_LONG_MAX = 2**63 - 1


class Offsets:
    def __init__(self, context: GroupContext, classic: ClassicMachine) -> None:
        self._context = context
        self._classic = classic
        self._store = OffsetStore()

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
                    self._check(check, topic.name, topic.topic_id, partition.partition_index)
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

    def _check(self, check: PartitionCheck | None, topic: str, topic_id: Uuid, partition: int) -> None:
        if check is not None:
            known = self._context.image().topic(topic)
            check(topic, known.topic_id if topic_id == ZERO_UUID and known is not None else topic_id, partition)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Decision[TxnOffsetCommitResponse]:
        """Like `commit`, but what is written counts when the transaction is committed."""
        try:
            check = self._check_transactional_commit(request)
            records: list[GroupRecord] = []
            topics = []
            for topic in request.topics:
                partitions = []
                for partition in topic.partitions:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    if not self._is_too_large(partition.committed_metadata):
                        code = ErrorCode.NONE
                        self._check(check, topic.name, topic.topic_id, partition.partition_index)
                        value = _value_of(partition, topic.topic_id, self._context.now_ms(), _NO_EXPIRY)
                        key = _key(request.group_id, topic.name, partition.partition_index)
                        records.append(GroupRecord(key, value))
                    partitions.append(
                        TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    )
                topics.append(
                    TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
                )
        except (GroupIdNotFound, StaleMemberEpoch) as error:
            if api_version >= _MEMBER_ERRORS_IN_TRANSACTIONS_SINCE:
                raise
            raise IllegalGeneration(error.message) from error  # the producer knows no epochs of members
        return Decision(records, TxnOffsetCommitResponse(topics=topics))

    def _check_transactional_commit(self, request: TxnOffsetCommitRequest) -> PartitionCheck | None:
        group, epoch = self._context.groups.get(request.group_id), request.generation_id
        if group is not None:
            return group.check_transactional_commit(request.member_id, request.group_instance_id, epoch)
        if epoch >= 0:
            raise GroupIdNotFound(f"there is no group {request.group_id}")
        return None

    def _is_too_large(self, metadata: str | None) -> bool:
        """Returns whether the metadata is longer than allowed. Java counts letters beyond the first 65,536 as two."""
        longest = self._context.config().offset_metadata_max_bytes
        if metadata is None or 2 * len(metadata) <= longest:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * longest

    # ---- fetch

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Returns the offsets of the topics that are named, or of all."""
        group_id = request.group_id
        group = self._context.groups.get(group_id)
        offsets = NO_OFFSETS
        if group is not None:
            group.check_offset_fetch(request.member_id, request.member_epoch)
            offsets = self._store.committed(group_id)
        asked = _everything(offsets) if request.topics is None else request.topics

        def partition(topic: OffsetFetchRequestTopics, index: int) -> OffsetFetchResponsePartitions:
            if require_stable and self._store.is_pending(group_id, topic.name, index):
                return _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            stored = offsets.get(topic.name, {}).get(index)
            if stored is None or _is_another(stored[0], topic.topic_id):
                return _no_offset(index)
            return _offset(index, stored[0])

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
        return [GroupRecord(_key(group_id, topic, index), None) for topic, index in self._store.partitions_of(group_id)]

    def tombstones_of_topics(self, topics: Collection[str]) -> list[GroupRecord]:
        """Returns the tombstones of deleted topics: one of the same name that may follow is another."""
        return [
            GroupRecord(_key(group_id, topic, index), None)
            for group_id in sorted(self._store.groups())
            for topic, index in self._store.partitions_of(group_id)
            if topic in topics
        ]

    def _tombstones(self, group_id: str, topic: str, indexes: Iterable[int]) -> list[GroupRecord]:
        """Returns the tombstones of those offsets that exist."""
        holds = self._store.holds
        return [GroupRecord(_key(group_id, topic, index), None) for index in indexes if holds(group_id, topic, index)]

    # ---- expiry

    def expired(self, group: Group) -> tuple[list[GroupRecord], bool]:
        """Returns the tombstones of what has expired, and whether nothing is left that keeps the group alive."""
        now_ms, group_id = self._context.now_ms(), group.group_id
        records: list[GroupRecord] = []
        is_all = not self._store.has_pending(group_id)
        for topic, offsets in self._store.committed(group_id).items():
            for index, (value, _) in offsets.items():
                is_pending = self._store.is_pending(group_id, topic, index)
                if not is_pending and self._is_expired(group, topic, value, now_ms):
                    records.append(GroupRecord(_key(group_id, topic, index), None))
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

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int) -> None:
        if value is None:
            return self._store.remove(key)
        if key.group not in self._context.groups:
            self._classic.get_or_create_simple(key.group)
        if producer_id == NO_PRODUCER_ID:
            self._store.put(key, (value, offset))
        else:
            self._store.put_pending(key, (value, offset), producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        self._store.end_transaction(producer_id, is_committed=is_committed)


def _key(group_id: str, topic: str, index: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=index)


def _value_of(
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    topic_id: Uuid,
    now_ms: int,
    expire_timestamp: int,
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )


def _everything(offsets: Mapping[str, dict[int, StoredOffset]]) -> list[OffsetFetchRequestTopics]:
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
