"""The offsets that a group has committed: read, set and deleted from outside, at the group's coordinator.

They are named by topic, not by topic id: a group may hold offsets of a topic that is gone.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from barnabas.client.client import Client
from barnabas.client.connection import Connection
from barnabas.client.errors import check
from barnabas.client.group_admin import refuse, unless_moved
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import TopicPartition

T = TypeVar("T")
LAST_VERSION_WITH_NAMES = 9
"""The last versions of OffsetFetch and OffsetCommit that name topics."""


def committed_offsets(client: Client, group_id: str, *, is_stable: bool = False) -> dict[TopicPartition, int]:
    """Returns all that the group has committed, by topic and partition. `is_stable` waits for the outcome of
    transactions that have committed offsets, as consumers do."""
    from barnabas.protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchResponse,
    )

    wanted = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = OffsetFetchRequest(group_id=group_id, topics=None, groups=[wanted], require_stable=is_stable)

    def ask(connection: Connection) -> dict[TopicPartition, int]:
        response = _by_names(connection, request, OffsetFetchResponse)
        found = response.groups[0] if response.groups else response  # several groups at once since version 8
        check(found.error_code, None, f"the offsets of group {group_id} cannot be read")
        offsets = {}
        for topic in found.topics:
            for partition in topic.partitions:
                about = f"the offset of group {group_id} in {topic.name}-{partition.partition_index}"
                check(partition.error_code, None, about)
                offsets[TopicPartition(topic.name, partition.partition_index)] = partition.committed_offset
        return {partition: offset for partition, offset in sorted(offsets.items()) if offset >= 0}

    unstable = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})
    return client.retry(lambda: client.on_coordinator(group_id, ask), unstable)


def commit_offsets(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    member_id: str = "",
    generation_id: int = -1,
) -> None:
    """Commits as a member of this generation, or as no member: the coordinator allows that only in an empty group."""
    from barnabas.protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
        OffsetCommitResponse,
    )

    def partition(index: int, offset: int) -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")

    topics = [
        OffsetCommitRequestTopic(
            name=topic, partitions=[partition(index, offsets[TopicPartition(topic, index)]) for index in indexes]
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=generation_id, member_id=member_id, topics=topics
    )

    def ask(connection: Connection) -> None:
        for topic in _by_names(connection, request, OffsetCommitResponse).topics:
            for result in topic.partitions:
                about = f"the offset of group {group_id} in {topic.name}-{result.partition_index} was not changed"
                check(result.error_code, None, about)

    client.on_coordinator(group_id, ask)


def delete_offsets(client: Client, group_id: str, partitions: Iterable[TopicPartition]) -> None:
    from barnabas.protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
        OffsetDeleteResponse,
    )

    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for topic, indexes in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    def ask(connection: Connection) -> ErrorCode:
        response = connection.request(request, OffsetDeleteResponse)
        refused = [result.error_code for topic in response.topics for result in topic.partitions if result.error_code]
        return unless_moved(response.error_code or next(iter(refused), 0), group_id)

    about = f"the offsets of group {group_id} in {', '.join(by_topic(partitions))} were not deleted"
    refuse(client, client.on_coordinator(group_id, ask), about, group_id)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _by_names(connection: Connection, request: Any, response_class: type[T]) -> T:
    connection.send(request, response_class, connection.version_of(type(request), LAST_VERSION_WITH_NAMES))
    return connection.receive(response_class)
