"""OffsetForLeaderEpoch (23), versions 2 to 4: where an epoch ended, so that consumers notice a truncation (KIP-320)."""

from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(node: Node, request: OffsetForLeaderEpochRequest, _context: RequestContext) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_partition(node, topic.topic, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _partition(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        replica = node.replicas.partition(topic, asked.partition, asked.current_leader_epoch)
        replica.check_leader_epoch(asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    epoch, end_offset = replica.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(error_code=0, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
