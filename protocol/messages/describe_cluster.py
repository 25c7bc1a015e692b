"""DescribeCluster: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, message, string, struct


@message(api_key=60, versions=range(0, 3), flexible_since=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2, default=False)


@struct
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)
    is_fenced: bool = boolean(since=2, default=False)


@message(api_key=60, versions=range(0, 3), flexible_since=0)
class DescribeClusterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: Sequence[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
