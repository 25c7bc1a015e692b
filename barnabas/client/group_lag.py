"""How far groups are behind: in records, and in time.

Rules:
- In records, it is the distance from the committed offset to the end of the log, as Kafka counts it: transaction
  markers and what compaction removed count too.
- In time, it is the age of the oldest record that the group has not read. Its timestamp is found by fetching the one
  batch that holds it; without a lag nothing is fetched. Markers, and offsets that compaction emptied, are
  passed over; what retention removed counts no more.
- What cannot be known is None, never 0: no committed offset, a topic that is gone, a partition without a leader, a
  record without a timestamp.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.client.admin import EARLIEST, LATEST, Isolation
from barnabas.client.client import Client
from barnabas.client.cluster import Topic, partitions_by_leader
from barnabas.client.group_admin import Group, Member
from barnabas.client.group_offsets import by_topic, committed_offsets
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

if TYPE_CHECKING:  # without a lag nothing is fetched
    from barnabas.protocol.messages.fetch import PartitionData

LOOKS_MAX = 2
"""How often the metadata is asked for: a leader that has just moved is found the second time."""
BATCHES_PASSED_MAX = 16
DECOMPRESSED_BYTES_MAX = 1 << 30
LAST_FETCH_VERSION_WITH_NAMES = 12


class PartitionLag(NamedTuple):
    partition: TopicPartition
    committed: int | None
    log_end_offset: int | None
    member: Member | None
    """The member that reads the partition."""

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end_offset is None or self.is_beyond_the_end:
            return None
        return self.log_end_offset - self.committed

    @property
    def is_beyond_the_end(self) -> bool:
        """Says whether the committed offset is beyond the log: the topic was deleted and created again, or lost
        records."""
        return self.committed is not None and self.log_end_offset is not None and self.committed > self.log_end_offset


def partition_lags(client: Client, groups: Sequence[Group]) -> dict[str, list[PartitionLag]]:
    """Returns, by group, every partition with a committed offset or a member that reads it, in order."""
    committed = {group.group_id: committed_offsets(client, group.group_id) for group in groups}
    owners = {
        group.group_id: {partition: member for member in group.members for partition in member.assignment or ()}
        for group in groups
    }
    wanted = {name: sorted({*committed[name], *owners[name]}) for name in committed}
    ends = log_offsets(client, {partition for partitions in wanted.values() for partition in partitions}, LATEST)
    return {
        name: [
            PartitionLag(each, committed[name].get(each), ends.get(each), owners[name].get(each)) for each in partitions
        ]
        for name, partitions in wanted.items()
    }


# ---- the ends of logs


def log_offsets(
    client: Client,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Returns the offsets at EARLIEST, LATEST or a timestamp. Leaves out partitions where there is none, or no
    leader."""
    found: dict[TopicPartition, int] = {}
    missing = set(partitions)
    for _ in range(LOOKS_MAX):
        if not missing:
            break
        cluster = client.metadata({partition.topic for partition in missing})
        for leader_id, theirs in partitions_by_leader(cluster, missing).items():
            found |= _list_offsets(client, leader_id, theirs, timestamp, isolation)
        missing = {each for each in missing if each not in found and each.topic in cluster.topics}
    return {partition: offset for partition, offset in found.items() if offset >= 0}


def _list_offsets(
    client: Client, leader_id: int, partitions: Iterable[TopicPartition], timestamp: int, isolation: Isolation
) -> dict[TopicPartition, int]:
    from barnabas.protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
    )

    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes],
        )
        for topic, indexes in by_topic(partitions).items()
    ]
    timeout_ms = int(client.timeout_s * 1000)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=timeout_ms)
    return {
        TopicPartition(topic.name, answer.partition_index): answer.offset
        for topic in client.node(leader_id).request(request, ListOffsetsResponse).topics
        for answer in topic.partitions
        if not answer.error_code
    }


# ---- the oldest unread record


def unread_ages(client: Client, lags: Iterable[PartitionLag], now_ms: int) -> dict[TopicPartition, float | None]:
    """Returns the age in seconds of the oldest unread record of each partition; 0 where everything is read."""
    ages: dict[TopicPartition, float | None] = {}
    behind: dict[TopicPartition, PartitionLag] = {}
    for each in lags:
        ages[each.partition] = 0.0 if each.lag == 0 else None
        if each.lag:
            behind[each.partition] = each
    if not behind:
        return ages
    cluster = client.metadata({partition.topic for partition in behind})
    for leader_id, partitions in partitions_by_leader(cluster, behind).items():
        for partition in partitions:
            timestamp = _oldest_unread(client, leader_id, cluster.topics[partition.topic], behind[partition], now_ms)
            ages[partition] = None if timestamp is None else max(0.0, (now_ms - timestamp) / 1000)
    return ages


def _oldest_unread(client: Client, leader_id: int, topic: Topic, lag: PartitionLag, now_ms: int) -> int | None:
    """Returns the timestamp of the first record at or after the committed offset, or now if only markers follow it."""
    assert lag.committed is not None, "without a committed offset nothing is known to be behind"
    assert lag.log_end_offset is not None, "without an end nothing is known to be behind"
    offset = lag.committed
    for _ in range(BATCHES_PASSED_MAX):
        if offset >= lag.log_end_offset:
            return now_ms
        fetched = _fetch_one_batch(client, leader_id, topic, lag.partition.partition, offset)
        if fetched is not None and fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = log_offsets(client, [lag.partition], EARLIEST).get(lag.partition, lag.log_end_offset)
            continue
        if fetched is None or fetched.error_code or not fetched.records:
            return None
        assert isinstance(fetched.records, memoryview), "decoded records are views"
        timestamp, next_offset = first_record(fetched.records, offset)
        if timestamp is not None or next_offset <= offset:
            return timestamp
        offset = next_offset
    return None


def _fetch_one_batch(client: Client, leader_id: int, topic: Topic, index: int, offset: int) -> "PartitionData | None":
    """Fetches the one batch that holds the offset: a broker never sends less, even with a limit of one byte."""
    from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
    from barnabas.protocol.types import ZERO_UUID

    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
    named = FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[named])
    connection = client.node(leader_id)
    knows_id = topic.topic_id != ZERO_UUID
    version = connection.version_of(FetchRequest, None if knows_id else LAST_FETCH_VERSION_WITH_NAMES)
    connection.send(request, FetchResponse, version)
    response = connection.receive(FetchResponse)
    return next((partition for answer in response.responses for partition in answer.partitions), None)


def first_record(records: memoryview, offset: int) -> tuple[int | None, int]:
    """Returns the timestamp of the first record at or after `offset`, and the offset after what was looked at."""
    from barnabas.protocol.batch_header import MAGIC, NO_TIMESTAMP, iter_batches
    from barnabas.protocol.records import iter_records

    try:
        for start, header in iter_batches(records):
            if header.magic == MAGIC and header.is_control:
                offset = max(offset, header.next_offset)
                continue
            batch = records[start : start + header.size_bytes]
            for record in iter_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
                if record.offset >= offset:
                    return (None, offset) if record.timestamp == NO_TIMESTAMP else (record.timestamp, record.offset + 1)
            offset = max(offset, header.next_offset)
    except (KafkaError, ProtocolError):  # one batch that cannot be read is no reason to show nothing at all
        pass
    return None, offset
