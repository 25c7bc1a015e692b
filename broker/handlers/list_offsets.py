"""ListOffsets (2), versions 1 to 11.

v2 isolation level, v4 leader epochs, v7 the offset of the largest timestamp, v8 the earliest local offset, v9 and v11
offsets in tiered storage (there is none here: unknown), v10 a timeout.
"""

from collections import Counter

from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.broker.node import Node
from barnabas.broker.partition import Isolation, LeaderPartition
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, InvalidRequest, KafkaError
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
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
"""What is found: timestamp, offset, leader epoch."""
_NOT_FOUND: _Found = (-1, -1, -1)


def handle(node: Node, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    is_committed_only = request.isolation_level == _READ_COMMITTED
    isolation = Isolation.LAST_STABLE_OFFSET if is_committed_only else Isolation.HIGH_WATERMARK
    asked = [(topic.name, entry.partition_index, entry) for topic in request.topics for entry in topic.partitions]
    times = Counter((name, index) for name, index, _ in asked)

    def partition(name: str, entry: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        response = ListOffsetsPartitionResponse(partition_index=entry.partition_index, error_code=0)
        try:
            if times[name, entry.partition_index] > 1:
                raise InvalidRequest("the same partition twice")
            if entry.timestamp < 0 and context.api_version < _SINCE.get(entry.timestamp, context.api_version + 1):
                raise KafkaError("a timestamp of a later version", ErrorCode.UNSUPPORTED_VERSION)
            replica = node.replicas.partition(name, entry.partition_index)
            response.timestamp, response.offset, response.leader_epoch = _find(replica, entry, isolation)
        except KafkaError as error:
            response.error_code = error.code
        return response

    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=[partition(name, entry) for entry in entries.values()])
            for name, entries in distinct_partitions(asked).items()
        ]
    )


def _find(replica: LeaderPartition, asked: ListOffsetsPartition, isolation: Isolation) -> _Found:
    replica.check_leader_epoch(asked.current_leader_epoch)
    log = replica.log
    end = replica.end_offset(isolation)
    match asked.timestamp:
        case -1:
            return -1, end, replica.leader_epoch
        case -2 | -4:
            return -1, log.log_start_offset, replica.epoch_of_offset(log.log_start_offset)
        case -3:
            found = log.offset_of_max_timestamp()
        case -5 | -6:
            return _NOT_FOUND
        case timestamp:
            found = log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return _NOT_FOUND
    return found.timestamp, found.offset, found.leader_epoch
