"""AllocateProducerIds (67), version 0.

A broker takes a block of producer ids (KIP-730).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def handle(
    node: Node, request: AllocateProducerIdsRequest, context: RequestContext
) -> Promise[AllocateProducerIdsResponse]:
    answered: Promise[AllocateProducerIdsResponse] = node.controller.submit(request, context.for_controller)
    return answered.or_else(
        lambda error: AllocateProducerIdsResponse(error_code=error.code, producer_id_start=0, producer_id_len=0)
    )
