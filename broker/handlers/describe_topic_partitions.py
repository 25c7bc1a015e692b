"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

A partition without a leader is described without an error, as by Kafka: its leader is -1.
While a leader may be dead, the answer waits a moment for the next one (`suspected_leaders.py`).
The lists of eligible leaders are never null, though the schema allows it: the Java admin client fails on null.
"""

from bisect import bisect_left

from barnabas.base.promise import Promise
from barnabas.broker.authorization import ALL_TOPIC_OPERATIONS
from barnabas.broker.handlers.metadata import why_unknown
from barnabas.broker.handlers.replica_states import ReplicaStates
from barnabas.broker.handlers.suspected_leaders import leaders_of, when_leaders_are_known
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
from barnabas.replication.metadata.image import INTERNAL_TOPICS, MetadataImage, PartitionImage


def handle(
    node: Node, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse | Promise[DescribeTopicPartitionsResponse]:
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return _refused(request)
    return when_leaders_are_known(
        node,
        lambda image: leaders_of(image.topic(name) for name in asked or image.topics),
        lambda: _page(node, request, asked, context),
    )


def _page(
    node: Node, request: DescribeTopicPartitionsRequest, asked: set[str], context: RequestContext
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    names = sorted(asked or node.image.topics)
    start = bisect_left(names, cursor.topic_name) if cursor is not None else 0
    limit = min(max(request.response_partition_limit, 1), node.config.max_request_partition_size_limit)
    response = DescribeTopicPartitionsResponse(topics=[])
    states = ReplicaStates(node.image, context.session.listener, node.suspected)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names[start:]:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if limit <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        described = _topic(node.image, name, range(first, first + limit), states)
        topics.append(described)
        limit -= len(described.partitions)
        end = first + len(described.partitions)
        if (topic := node.image.topic(name)) is not None and end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    response.topics = topics
    return response


def _topic(
    image: MetadataImage, name: str, indexes: range, states: ReplicaStates
) -> DescribeTopicPartitionsResponseTopic:
    topic = image.topic(name)
    if topic is None:
        return _unknown(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(index, partition, states)
            for index, partition in enumerate(topic.partitions[indexes.start : indexes.stop], indexes.start)
        ],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _partition(
    index: int, partition: PartitionImage, states: ReplicaStates
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=states.leader(partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=states.offline(partition),
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
