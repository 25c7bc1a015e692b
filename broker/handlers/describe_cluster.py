"""DescribeCluster (60), versions 0 to 2.

v1 asks for brokers or controllers (KIP-919): a broker answers for brokers only. v2 shows fenced brokers too.
"""

from barnabas.broker.authorization import ALL_CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1
_CONTROLLERS = 2


def handle(node: Node, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refused(request.endpoint_type)
    return DescribeClusterResponse(
        error_code=0,
        cluster_id=node.image.cluster_id,
        controller_id=node.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=registered.broker_id, host=host, port=port, rack=registered.rack, is_fenced=registered.fenced
            )
            for registered, host, port in node.endpoints(context.session, fenced_too=request.include_fenced_brokers)
        ],
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_ASKED_FOR,
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    is_known = endpoint_type == _CONTROLLERS
    why = "this is a broker: ask a controller's listener" if is_known else f"no endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=why,
        cluster_id="",
        brokers=(),
    )
