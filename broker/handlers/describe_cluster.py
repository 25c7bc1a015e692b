"""DescribeCluster (60), versions 0 to 2.

v1 asks for brokers or controllers (KIP-919): each kind of listener answers for its own. v2 shows fenced brokers too.
"""

from barnabas.broker.authorization import ALL_CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from barnabas.broker.network.session import ListenerType
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
    served = _CONTROLLERS if context.listener_type is ListenerType.CONTROLLER else _BROKERS
    if request.endpoint_type != served:
        return _refused(request.endpoint_type, served)
    is_broker = served == _BROKERS
    return DescribeClusterResponse(
        error_code=0,
        endpoint_type=served,
        cluster_id=node.image.cluster_id,
        controller_id=node.controller_id if is_broker else node.quorum.driver.leader[0],
        brokers=_brokers(node, request, context) if is_broker else _controllers(node, context),
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_ASKED_FOR,
    )


def _brokers(node: Node, request: DescribeClusterRequest, context: RequestContext) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(
            broker_id=registered.broker_id, host=host, port=port, rack=registered.rack, is_fenced=registered.fenced
        )
        for registered, host, port in node.endpoints(context.session, fenced_too=request.include_fenced_brokers)
    ]


def _controllers(node: Node, context: RequestContext) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=controller_id, host=endpoint.host, port=endpoint.port, rack=None)
        for controller_id, controller in sorted(node.image.controllers.items())
        if (endpoint := controller.endpoints.get(context.session.listener)) is not None
    ]


def _refused(endpoint_type: int, served: int) -> DescribeClusterResponse:
    is_known = endpoint_type in (_BROKERS, _CONTROLLERS)
    other = "this is a broker: ask a controller's listener" if served == _BROKERS else "this is a controller's listener"
    why = other if is_known else f"no endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=why,
        cluster_id="",
        brokers=(),
    )
