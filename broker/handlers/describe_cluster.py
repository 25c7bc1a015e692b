"""DescribeCluster (60), versions 0 to 2.

v1 asks for brokers or controllers (KIP-919): a broker answers for brokers only. v2 shows fenced brokers too.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.handlers.metadata import ALL_CLUSTER_OPERATIONS
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1
_CONTROLLERS = 2
_NOT_ASKED = -(2**31)


def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refused(request.endpoint_type)
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.broker_id, host=host, port=port, rack=node.rack, is_fenced=node.fenced)
            for node, host, port in broker.endpoints(context.connection, fenced_too=request.include_fenced_brokers)
        ],
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else _NOT_ASKED,
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    is_known = endpoint_type == _CONTROLLERS
    why = "this is a broker: ask a controller's listener" if is_known else f"no endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=why,
        cluster_id="",
        brokers=(),
    )
