"""InitProducerId (22), versions 0 to 5.

v3 lets a client ask for its own id again (KIP-360), v5 is transactions' second version.

An idempotent producer gets a new id each time, as from Kafka. A transactional one is told that there is no coordinator.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    if request.transactional_id is not None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if request.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_epoch=-1)
    return broker.producer_ids.next().map(_response)


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0)
