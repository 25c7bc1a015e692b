"""ListOffsets (2), versions 1 to 11.

v2 isolation level, v4 leader epochs, v7 the offset of the largest timestamp, v8 the earliest local offset, v9 and v11
offsets in tiered storage (there is none here: unknown), v10 a timeout.
"""

from collections import Counter

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.partition import Partition
from barnabas.protocol.errors import ErrorCode, InvalidRequest, KafkaError
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_COMMITTED = 1

_Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""
_NOT_FOUND: _Found = (-1, -1, -1)


def handle(broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    committed_only = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[_topic(broker, topic, committed_only, context.api_version) for topic in request.topics]
    )


def _topic(broker: Broker, topic: ListOffsetsTopic, committed_only: bool, api_version: int) -> ListOffsetsTopicResponse:
    times = Counter(partition.partition_index for partition in topic.partitions)
    responses = []
    for partition in topic.partitions:
        response = ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=0)
        try:
            if times[partition.partition_index] > 1:
                raise InvalidRequest("the same partition twice")
            if partition.timestamp < 0 and api_version < _SINCE.get(partition.timestamp, api_version + 1):
                raise KafkaError("a timestamp of a later version", ErrorCode.UNSUPPORTED_VERSION)
            replica = broker.replicas.partition(topic.name, partition.partition_index)
            response.timestamp, response.offset, response.leader_epoch = _find(replica, partition, committed_only)
        except KafkaError as error:
            response.error_code = error.code
        responses.append(response)
    return ListOffsetsTopicResponse(name=topic.name, partitions=responses)


def _find(replica: Partition, asked: ListOffsetsPartition, committed_only: bool) -> _Found:
    replica.check_leader_epoch(asked.current_leader_epoch)
    log = replica.log
    end = replica.last_stable_offset if committed_only else replica.high_watermark
    match asked.timestamp:
        case -1:
            return -1, end, replica.leader_epoch
        case -2 | -4:
            return -1, log.log_start_offset, log.epoch_of_offset(log.log_start_offset)
        case -3:
            found = log.offset_of_max_timestamp()
        case -5 | -6:
            return _NOT_FOUND
        case timestamp:
            found = log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return _NOT_FOUND
    return found.timestamp, found.offset, found.leader_epoch
