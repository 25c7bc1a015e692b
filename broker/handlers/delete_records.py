"""DeleteRecords (21), versions 0 to 2: moves the log start offset up; -1 means up to the high watermark.

The answer waits until every living replica has deleted as much, or for `timeout_ms`.
"""

from collections.abc import Iterable

from barnabas.base.promise import Promise, all_of, resolved
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


def handle(node: Node, request: DeleteRecordsRequest, _context: RequestContext) -> Promise[DeleteRecordsResponse]:
    asked = ((topic.name, entry.partition_index, entry) for topic in request.topics for entry in topic.partitions)
    topics = [_topic(node, name, entries.values(), request) for name, entries in distinct_partitions(asked).items()]
    return all_of(topics).map(lambda topics: DeleteRecordsResponse(topics=topics))


def _topic(
    node: Node, name: str, asked: Iterable[DeleteRecordsPartition], request: DeleteRecordsRequest
) -> Promise[DeleteRecordsTopicResult]:
    partitions = [_partition(node, name, entry, request.timeout_ms) for entry in asked]
    return all_of(partitions).map(lambda partitions: DeleteRecordsTopicResult(name=name, partitions=partitions))


def _partition(
    node: Node, topic: str, asked: DeleteRecordsPartition, timeout_ms: int
) -> Promise[DeleteRecordsPartitionResult]:
    def result(low_watermark: int, error_code: int = 0) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=low_watermark, error_code=error_code
        )

    try:
        if topic in INTERNAL_TOPICS and node.image.partition(topic, asked.partition_index) is not None:
            raise KafkaError("an internal topic is not for clients to delete from", ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = node.replicas.partition(topic, asked.partition_index)
        if "delete" not in replica.log.config.cleanup_policy:
            raise KafkaError("the topic's cleanup.policy does not delete", ErrorCode.POLICY_VIOLATION)
        deleted = replica.delete_records(asked.offset, timeout_ms)
    except KafkaError as error:
        return resolved(result(-1, error.code))
    return deleted.map(result).or_else(lambda error: result(-1, error.code))
