"""DescribeLogDirs (35), versions 1 to 5: v3 an error code, v4 total and usable bytes (KIP-827), v5 cordoned dirs."""

from collections.abc import Iterable

from barnabas.broker.broker import Broker, RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log_dir import LogDir


def handle(broker: Broker, request: DescribeLogDirsRequest, _context: RequestContext) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions]
    return DescribeLogDirsResponse(
        throttle_time_ms=0, results=[_log_dir(broker, log_dir, wanted) for log_dir in broker.logs.dirs]
    )


def _log_dir(broker: Broker, log_dir: LogDir, wanted: list[TopicPartition] | None) -> DescribeLogDirsResult:
    if log_dir.is_offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path, topics=())
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in _partitions(log_dir, wanted):
        topics.setdefault(partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.partition,
                partition_size=log_dir.size_of(partition),
                offset_lag=0,
                is_future_key=False,
            )
        )
    total, usable = log_dir.space()
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=log_dir.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def _partitions(log_dir: LogDir, wanted: list[TopicPartition] | None) -> Iterable[TopicPartition]:
    here = log_dir.partitions
    return here if wanted is None else [partition for partition in wanted if partition in here]
