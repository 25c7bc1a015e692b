"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

The lists of eligible leaders are never null, though the schema allows it: the Java admin client fails on null.
"""

from bisect import bisect_left

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.handlers.metadata import ALL_TOPIC_OPERATIONS
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.image import NO_LEADER, PartitionImage
from barnabas.replication.topic_names import check_topic_name


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, _context: RequestContext
) -> DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in request.topics} or broker.image.topics)
    cursor = request.cursor
    start = bisect_left(names, cursor.topic_name) if cursor is not None else 0
    limit = min(max(request.response_partition_limit, 1), broker.config.max_request_partition_size_limit)
    response = DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=[])
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names[start:]:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if limit <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        described = _topic(broker, name, max(first, 0), limit)
        topics.append(described)
        limit -= len(described.partitions)
        end = max(first, 0) + len(described.partitions)
        if (topic := broker.image.topic(name)) is not None and end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    response.topics = topics
    return response


def _topic(broker: Broker, name: str, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    topic = broker.image.topic(name)
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
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=())
