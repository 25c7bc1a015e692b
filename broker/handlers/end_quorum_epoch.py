"""EndQuorumEpoch (54), versions 0 and 1.

A leader of the quorum resigns, and says who should stand. v1 directory ids (KIP-853).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


def handle(node: Node, request: EndQuorumEpochRequest, context: RequestContext) -> Promise[EndQuorumEpochResponse]:
    return node.quorum.driver.receive(request)
