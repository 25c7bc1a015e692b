"""DeleteRecords (21), versions 0 to 2: moves the log start offset up; -1 means up to the high watermark."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(broker: Broker, request: DeleteRecordsRequest, _context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_partition(broker, topic.name, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _partition(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=0)
    try:
        replica = broker.replicas.partition(topic, asked.partition_index)
        if "delete" not in replica.log.config.cleanup_policy:
            raise KafkaError("the topic's cleanup.policy does not delete", ErrorCode.POLICY_VIOLATION)
        result.low_watermark = replica.delete_records(asked.offset)
    except KafkaError as error:
        result.error_code = error.code
    return result
