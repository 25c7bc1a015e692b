"""RemoveRaftVoter (81), version 0.

Removes a voter from the metadata quorum (KIP-853).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(node: Node, request: RemoveRaftVoterRequest, context: RequestContext) -> Promise[RemoveRaftVoterResponse]:
    answered: Promise[RemoveRaftVoterResponse] = node.controller.submit(request, context.for_controller)
    return answered.or_else(lambda error: RemoveRaftVoterResponse(error_code=error.code, error_message=error.message))
