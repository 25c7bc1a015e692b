"""EndTxn (26), versions 0 to 5.

v2 a code of its own for a producer that was fenced, v4 that a transaction may only be aborted, v5 the epoch in which
the producer goes on: each transaction ends in one of its own (KIP-890).

Answered when the decision is committed, by the rules of the request's version, whatever the level of
transaction.version. The markers follow: until they are written, the next transaction waits (`held_back.py`).
"""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.fenced_producers import code_for
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

_PRODUCER_FENCED_SINCE = 2
_NEXT_EPOCH_SINCE = 5


def handle(node: Node, request: EndTxnRequest, context: RequestContext) -> Promise[EndTxnResponse]:
    has_next_epoch = context.api_version >= _NEXT_EPOCH_SINCE
    ended = node.transactions.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        client_version=2 if has_next_epoch else 0,
    )

    def response(producer: ProducerIdAndEpoch) -> EndTxnResponse:
        if not has_next_epoch:
            return EndTxnResponse(error_code=ErrorCode.NONE)
        return EndTxnResponse(
            error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )

    def refused(error: KafkaError) -> EndTxnResponse:
        return EndTxnResponse(error_code=code_for(error, context.api_version, _PRODUCER_FENCED_SINCE))

    return ended.map(response).or_else(refused)
