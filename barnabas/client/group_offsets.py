"""The offsets that a group has committed: read, set and deleted from outside, at the group's coordinator.

They are named by topic, not by topic id: a group may hold offsets of a topic that is gone.
"""

from collections.abc import Iterable, Mapping, Sequence
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


def committed_offsets(client: Client, group_id: str) -> dict[TopicPartition, int]:
    """Returns all that the group has committed, by topic and partition."""
    return client.on_coordinator(group_id, lambda connection: _known(group_id, _fetch(connection, group_id)))


def stable_offsets(client: Client, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns what the group has committed of these partitions. Waits for the outcome of transactions that have
    committed offsets, as consumers do."""
    named = by_topic(partitions)
    if not named:
        return {}

    def ask(connection: Connection) -> dict[TopicPartition, int]:
        return _known(group_id, _fetch(connection, group_id, named))

    return client.retry(lambda: client.on_coordinator(group_id, ask), frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}))


def unstable_offsets(client: Client, group_id: str, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Returns the partitions whose offset depends on the outcome of a transaction. Brokers before Kafka 2.5 do not
    tell."""
    named = by_topic(partitions)
    if not named:
        return set()
    fetched = client.on_coordinator(group_id, lambda connection: _fetch(connection, group_id, named))
    return {partition for partition, (_, code) in fetched.items() if code == ErrorCode.UNSTABLE_OFFSET_COMMIT}


def _fetch(
    connection: Connection, group_id: str, named: Mapping[str, Sequence[int]] | None = None
) -> dict[TopicPartition, tuple[int, int]]:
    """Returns offsets and error codes: of everything that is committed or, if partitions are named, of these as far as
    they are stable."""
    from barnabas.protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
        OffsetFetchResponse,
    )

    one = many = None
    if named is not None:
        one = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in named.items()]
        many = [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in named.items()]
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=one,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=many)],
        require_stable=named is not None,
    )
    response = _by_names(connection, request, OffsetFetchResponse)
    found = response.groups[0] if response.groups else response  # several groups at once since version 8
    check(found.error_code, None, f"the offsets of group {group_id} cannot be read")
    return {
        TopicPartition(topic.name, partition.partition_index): (partition.committed_offset, partition.error_code)
        for topic in found.topics
        for partition in topic.partitions
    }


def _known(group_id: str, fetched: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    """Returns the offsets that there are, in order. Raises the first error."""
    for partition, (_, code) in fetched.items():
        check(code, None, f"the offset of group {group_id} in {partition}")
    return {partition: offset for partition, (offset, _) in sorted(fetched.items()) if offset >= 0}


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
