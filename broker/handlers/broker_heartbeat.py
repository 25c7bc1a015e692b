"""BrokerHeartbeat (63), versions 0 to 2: a broker reports to the controller (KIP-631).

v1 log dirs that have failed (KIP-858), v2 log dirs that take no new replicas (KIP-1066), which are ignored so far.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(node: Node, request: BrokerHeartbeatRequest, context: RequestContext) -> Promise[BrokerHeartbeatResponse]:
    answered: Promise[BrokerHeartbeatResponse] = node.controller.submit(request, context.for_controller)

    def heard(response: BrokerHeartbeatResponse) -> BrokerHeartbeatResponse:
        node.links.heard(request.broker_id, request.broker_epoch, context.session)
        return response

    return answered.map(heard).or_else(
        lambda error: BrokerHeartbeatResponse(error_code=error.code, is_fenced=True, should_shut_down=False)
    )
