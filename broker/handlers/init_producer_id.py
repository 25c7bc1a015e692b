"""InitProducerId (22), versions 0 to 5.

v3 lets a client ask for its own id again (KIP-360), v4 a code of its own for a producer that was fenced, v5 that a
transaction may only be aborted (KIP-890).

An idempotent producer gets a new id each time. A transactional one gets the id that is stored for it, in a later epoch,
so that whoever had it before is fenced; a transaction that is open is aborted first. The coordinator answers.
"""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.fenced_producers import code_for
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_PRODUCER_FENCED_SINCE = 4


def handle(
    node: Node, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    is_new = request.producer_id == NO_PRODUCER_ID
    if is_new != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)

    def refused(error: KafkaError) -> InitProducerIdResponse:
        return _refused(code_for(error, context.api_version, _PRODUCER_FENCED_SINCE))

    if request.transactional_id is None:
        return node.producer_ids.next().map(lambda producer_id: _response(producer_id, 0)).or_else(refused)
    from barnabas.broker.transactions.transaction import ProducerIdAndEpoch  # idempotent producers need no coordinator

    initialized = node.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        None if is_new else ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
    )
    return initialized.map(lambda producer: _response(*producer)).or_else(refused)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)


def _response(producer_id: int, producer_epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=producer_epoch)
