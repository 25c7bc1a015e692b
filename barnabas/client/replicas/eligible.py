"""Which replicas may lead although they are not in sync (KIP-966)."""

from collections.abc import Collection

from barnabas.client.client import Client
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from barnabas.protocol.types import TopicPartition


def eligible_leaders(client: Client, topics: Collection[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Returns the eligible leader replicas of partitions that have some; none of a broker that is too old to know."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor: Cursor | None = None
    while topics:
        wanted = [TopicRequest(name=name) for name in sorted(topics)]
        request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=2000, cursor=cursor)
        try:
            page = client.request(request, DescribeTopicPartitionsResponse)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {}
        for topic in page.topics:
            for each in topic.partitions:
                if each.eligible_leader_replicas:
                    name = TopicPartition(topic.name or "", each.partition_index)
                    found[name] = tuple(each.eligible_leader_replicas)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found
