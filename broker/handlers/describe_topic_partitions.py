"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

The lists of eligible leaders are never null, though the schema allows it: the Java admin client fails on null.
"""

from bisect import bisect_left

from barnabas.broker.authorization import ALL_TOPIC_OPERATIONS
from barnabas.broker.handlers.metadata import why_unknown
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.metadata.image import INTERNAL_TOPICS, NO_LEADER, PartitionImage


def handle(
    node: Node, request: DescribeTopicPartitionsRequest, _context: RequestContext
) -> DescribeTopicPartitionsResponse:
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return _refused(request)
    names = sorted(asked or node.image.topics)
    start = bisect_left(names, cursor.topic_name) if cursor is not None else 0
    limit = min(max(request.response_partition_limit, 1), node.config.max_request_partition_size_limit)
    response = DescribeTopicPartitionsResponse(topics=[])
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names[start:]:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if limit <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        described = _topic(node, name, first, limit)
        topics.append(described)
        limit -= len(described.partitions)
        end = first + len(described.partitions)
        if (topic := node.image.topic(name)) is not None and end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    response.topics = topics
    return response


def _topic(node: Node, name: str, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    topic = node.image.topic(name)
    if topic is None:
        return _unknown(name)
    partitions = topic.partitions[first : first + limit]
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(first + index, partition) for index, partition in enumerate(partitions)],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _partition(index: int, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else 0,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=partition.offline_replicas,
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=why_unknown(name),
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Refuses a cursor that no page of this request could have ended with."""
    code = ErrorCode.INVALID_REQUEST
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name, topic_id=ZERO_UUID, partitions=())
        for topic in request.topics
    ]
    return DescribeTopicPartitionsResponse(topics=topics)
