"""ElectLeaders (43), versions 0 to 2: v1 the kind of election (KIP-460)."""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


def handle(node: Node, request: ElectLeadersRequest, context: RequestContext) -> Promise[ElectLeadersResponse]:
    elected: Promise[ElectLeadersResponse] = node.controller.submit(request, context.for_controller)
    return elected.or_else(lambda error: ElectLeadersResponse(error_code=error.code, replica_election_results=[]))
