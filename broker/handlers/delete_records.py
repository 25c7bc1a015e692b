"""DeleteRecords (21), versions 0 to 2: moves the log start offset up; -1 means up to the high watermark."""

from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from barnabas.replication.metadata.image import INTERNAL_TOPICS


def handle(node: Node, request: DeleteRecordsRequest, _context: RequestContext) -> DeleteRecordsResponse:
    asked = ((topic.name, entry.partition_index, entry) for topic in request.topics for entry in topic.partitions)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name, partitions=[_partition(node, name, entry) for entry in entries.values()]
            )
            for name, entries in distinct_partitions(asked).items()
        ],
    )


def _partition(node: Node, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=0)
    try:
        if topic in INTERNAL_TOPICS and node.image.partition(topic, asked.partition_index) is not None:
            raise KafkaError("an internal topic is not for clients to delete from", ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = node.replicas.partition(topic, asked.partition_index)
        if "delete" not in replica.log.config.cleanup_policy:
            raise KafkaError("the topic's cleanup.policy does not delete", ErrorCode.POLICY_VIOLATION)
        result.low_watermark = replica.delete_records(asked.offset)
    except KafkaError as error:
        result.error_code = error.code
    return result
