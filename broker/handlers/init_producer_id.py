"""InitProducerId (22), versions 0 to 5.

v3 lets a client ask for its own id again (KIP-360), v5 is transactions' second version.

An idempotent producer gets a new id each time, as from Kafka. A transactional one is refused: transactions are not
supported so far.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    node: Node, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return node.producer_ids.next().map(_response).or_else(lambda error: _refused(error.code))


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)
