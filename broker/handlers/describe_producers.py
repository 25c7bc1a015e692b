"""DescribeProducers (61), version 0: who writes to a partition, and how far they are. A follower knows it, too."""

from barnabas.broker.handlers.repeats import Repeats
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from barnabas.replication.controller.topic_names import check_topic_name


def handle(node: Node, request: DescribeProducersRequest, _context: RequestContext) -> DescribeProducersResponse:
    repeats = Repeats()
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_partition(node, topic.name, index, repeats) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ],
    )


def _partition(node: Node, topic: str, index: int, repeats: Repeats) -> PartitionResponse:
    try:
        repeats.check((topic, index))
        check_topic_name(topic)
        producers = node.replicas.replica(topic, index).log.active_producers()
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message, active_producers=()
        )
    return PartitionResponse(
        partition_index=index,
        error_code=0,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_first_offset,
            )
            for producer_id, producer in producers
        ],
    )
