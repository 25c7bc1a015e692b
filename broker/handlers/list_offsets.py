"""ListOffsets (2), versions 1 to 11.

v2 isolation level, v4 leader epochs, v7 the offset of the largest timestamp, v8 the earliest local offset, v9 and v11
offsets in tiered storage (there is none here: unknown), v10 a timeout.

- A new leader that does not know so far what is committed answers OFFSET_NOT_AVAILABLE (KIP-207), to clients that know
  this error: since v5.
- A replica is answered up to the end of the log, and replica -2, a tool that compares replicas, by any of them.
"""

from collections import Counter

from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.broker.node import Node
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import Isolation, Partition
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, InvalidRequest, KafkaError, OffsetNotAvailable
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
_CONSUMER = -1
_DEBUGGING = -2
_OFFSET_NOT_AVAILABLE_SINCE = 5

_Found = tuple[int, int, int]
"""What is found: timestamp, offset, leader epoch."""
_NOT_FOUND: _Found = (-1, -1, -1)


def handle(node: Node, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    is_committed_only = request.isolation_level == _READ_COMMITTED
    isolation = Isolation.LAST_STABLE_OFFSET if is_committed_only else Isolation.HIGH_WATERMARK
    if request.replica_id != _CONSUMER:
        isolation = Isolation.LOG_END
    find_partition = node.replicas.replica if request.replica_id == _DEBUGGING else node.replicas.partition
    asked = [(topic.name, entry.partition_index, entry) for topic in request.topics for entry in topic.partitions]
    times = Counter((name, index) for name, index, _ in asked)

    def partition(name: str, entry: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        response = ListOffsetsPartitionResponse(partition_index=entry.partition_index, error_code=0)
        try:
            if times[name, entry.partition_index] > 1:
                raise InvalidRequest("the same partition twice")
            if entry.timestamp < 0 and context.api_version < _SINCE.get(entry.timestamp, context.api_version + 1):
                raise KafkaError("a timestamp of a later version", ErrorCode.UNSUPPORTED_VERSION)
            replica = find_partition(name, entry.partition_index, entry.current_leader_epoch)
            response.timestamp, response.offset, response.leader_epoch = _find(replica, entry, isolation)
        except OffsetNotAvailable as error:
            is_known = context.api_version >= _OFFSET_NOT_AVAILABLE_SINCE
            response.error_code = error.code if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        except KafkaError as error:
            response.error_code = error.code
        return response

    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=[partition(name, entry) for entry in entries.values()])
            for name, entries in distinct_partitions(asked).items()
        ]
    )


def _find(replica: Partition, asked: ListOffsetsPartition, isolation: Isolation) -> _Found:
    replica.check_leader_epoch(asked.current_leader_epoch)
    log = replica.log
    end = replica.end_offset(isolation)
    match asked.timestamp:
        case -1:
            _check_available(replica, isolation)
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
        _check_available(replica, isolation)
        return _NOT_FOUND
    return found.timestamp, found.offset, found.leader_epoch


def _check_available(replica: Partition, isolation: Isolation) -> None:
    if isolation is not Isolation.LOG_END and isinstance(replica, LeaderPartition):
        replica.check_offsets_available()
