"""DescribeLogDirs (35), versions 1 to 5: v3 an error code, v4 total and usable bytes (KIP-827), v5 cordoned dirs.

As in Kafka the lag of a replica is that of its log behind its own high watermark, and so none: it does not say how
far a follower is behind its leader.
"""

import os

from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.storage.log_dir import LogDir


def handle(node: Node, request: DescribeLogDirsRequest, _context: RequestContext) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_log_dir(node, log_dir, wanted) for log_dir in node.logs.log_dirs])


def _log_dir(node: Node, log_dir: LogDir, wanted: set[TopicPartition] | None) -> DescribeLogDirsResult:
    path = os.path.abspath(log_dir.path)
    if log_dir.error is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
    try:
        total_bytes, usable_bytes = log_dir.files.total_bytes(log_dir.path), log_dir.files.free_bytes(log_dir.path)
    except OSError as error:
        log_dir.failed(error)
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition, size in () if wanted == set() else node.logs.sizes(log_dir):  # to measure logs may take long
        if partition.topic != CLUSTER_METADATA_TOPIC and (wanted is None or partition in wanted):
            topics.setdefault(partition.topic, []).append(_partition(partition.partition, size))
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _partition(index: int, size: int) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
