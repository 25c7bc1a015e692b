"""BeginQuorumEpoch (53), versions 0 and 1.

A new leader of the quorum says so to the voters. v1 directory ids and the leader's addresses (KIP-853).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse


def handle(node: Node, request: BeginQuorumEpochRequest, context: RequestContext) -> Promise[BeginQuorumEpochResponse]:
    return node.quorum.driver.receive(request)
