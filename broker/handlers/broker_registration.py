"""BrokerRegistration (62), versions 0 to 4: a broker joins the cluster (KIP-631).

v1 migration from ZooKeeper, v2 log dirs (KIP-858), v3 the epoch of a clean stop (KIP-966), v4 features whose lowest
version is 0.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


def handle(
    node: Node, request: BrokerRegistrationRequest, context: RequestContext
) -> Promise[BrokerRegistrationResponse]:
    node.links.registers(request)
    registered: Promise[BrokerRegistrationResponse] = node.controller.submit(request, context.for_controller)
    return registered.or_else(lambda error: BrokerRegistrationResponse(error_code=error.code, broker_epoch=-1))
