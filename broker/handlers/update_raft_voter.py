"""UpdateRaftVoter (82), version 0.

A voter says where it is to be found, and which versions of kraft.version it supports (KIP-853).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


def handle(node: Node, request: UpdateRaftVoterRequest, context: RequestContext) -> Promise[UpdateRaftVoterResponse]:
    return node.quorum.driver.receive(request)
