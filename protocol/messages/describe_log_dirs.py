"""DescribeLogDirs: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, string, struct


@struct
class DescribableLogDirTopic:
    topic: str = string()
    partitions: Sequence[int] = array(int32)


@message(api_key=35, versions=range(1, 6), flexible_since=2)
class DescribeLogDirsRequest:
    topics: Sequence[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable=True)


@struct
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic:
    name: str = string()
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    error_code: int = int16()
    log_dir: str = string()
    topics: Sequence[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1)
    usable_bytes: int = int64(since=4, default=-1)
    is_cordoned: bool = boolean(since=5, default=False)


@message(api_key=35, versions=range(1, 6), flexible_since=2)
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=3, default=0)
    results: Sequence[DescribeLogDirsResult] = array(DescribeLogDirsResult)
