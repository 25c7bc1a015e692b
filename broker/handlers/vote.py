"""Vote (52), versions 0 to 2.

v1 directory ids (KIP-853), v2 pre-votes (KIP-996). The quorum decides: replication/quorum/elections.py.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse


def handle(node: Node, request: VoteRequest, context: RequestContext) -> Promise[VoteResponse]:
    return node.quorum.driver.receive(request)
