"""UnregisterBroker (64), version 0.

Forgets a broker that will not come back.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(node: Node, request: UnregisterBrokerRequest, context: RequestContext) -> Promise[UnregisterBrokerResponse]:
    answered: Promise[UnregisterBrokerResponse] = node.controller.submit(request, context.for_controller)
    return answered.or_else(lambda error: UnregisterBrokerResponse(error_code=error.code, error_message=error.message))
