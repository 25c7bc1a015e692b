"""DescribeQuorum (55), versions 0 to 2: who votes in the metadata quorum, who leads, and how far each has come.

v1 times of the last fetch (KIP-836), v2 directory ids, addresses and error messages (KIP-853). Only the leader knows,
so a broker asks it.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(node: Node, request: DescribeQuorumRequest, context: RequestContext) -> Promise[DescribeQuorumResponse]:
    described: Promise[DescribeQuorumResponse] = node.controller.submit(request, context.for_controller)
    return described.or_else(
        lambda error: DescribeQuorumResponse(error_code=error.code, error_message=error.message, topics=[], nodes=[])
    )
