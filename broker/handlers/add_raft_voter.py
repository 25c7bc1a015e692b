"""AddRaftVoter (80), versions 0 and 1.

Adds a voter to the metadata quorum (KIP-853). v1 may be answered before the change is committed (KIP-1186).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(node: Node, request: AddRaftVoterRequest, context: RequestContext) -> Promise[AddRaftVoterResponse]:
    answered: Promise[AddRaftVoterResponse] = node.controller.submit(request, context.for_controller)
    return answered.or_else(lambda error: AddRaftVoterResponse(error_code=error.code, error_message=error.message))
