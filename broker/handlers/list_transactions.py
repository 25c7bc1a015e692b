"""ListTransactions (66), versions 0 to 2: v1 by how long they are open (KIP-994), v2 by a pattern for their ids
(KIP-1152).

Only this coordinator's transactions. As in Kafka, an id without a transaction counts as one that is open for ever.
Deviation: patterns are RE2's, not Java's: backreferences and lookaround are refused.
"""

from barnabas.base.promise import Promise, all_of
from barnabas.broker.node import Node
from barnabas.broker.regular_expressions import compiled
from barnabas.broker.request_context import RequestContext
from barnabas.broker.transactions.transaction import State, Transaction
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_NEVER_STORED = ("Dead", "PrepareEpochFence")
"""Kafka knows these states, and no transaction is seen in one."""


def handle(
    node: Node, request: ListTransactionsRequest, _context: RequestContext
) -> ListTransactionsResponse | Promise[ListTransactionsResponse]:
    try:
        wanted = Filter(request, node.clock.now_ms())
        shards = node.transactions.transactions()
    except KafkaError as error:
        return _refused(error.code)
    return all_of([shard.or_else(_transactions_of_none) for shard in shards]).map(wanted.response)


def _transactions_of_none(error: KafkaError) -> list[Transaction] | KafkaError:
    """Returns none for a partition that was moved away meanwhile: its new leader lists them."""
    return [] if error.code == ErrorCode.NOT_COORDINATOR else error


def _refused(code: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code, unknown_state_filters=(), transaction_states=())


class Filter:
    """What a request asks for. Raises InvalidRegularExpression."""

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        pattern = request.transactional_id_pattern
        self._matches = compiled(pattern, "Transaction ID pattern") if pattern else None
        self._states = set(request.state_filters)
        self._producer_ids = set(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._now_ms = now_ms

    def response(self, shards: list[list[Transaction] | KafkaError]) -> ListTransactionsResponse:
        transactions: list[Transaction] = []
        for shard in shards:
            if isinstance(shard, KafkaError):
                return _refused(shard.code)
            transactions += shard
        known = {*_NEVER_STORED, *(state.label for state in State)}
        return ListTransactionsResponse(
            error_code=ErrorCode.NONE,
            unknown_state_filters=sorted(self._states - known),
            transaction_states=[
                TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.label,
                )
                for transaction in transactions
                if self._lets_through(transaction)
            ],
        )

    def _lets_through(self, transaction: Transaction) -> bool:
        if self._producer_ids and transaction.producer_id not in self._producer_ids:
            return False
        if self._states and transaction.state.label not in self._states:
            return False
        if self._duration_ms >= 0 and self._now_ms - transaction.start_timestamp_ms <= self._duration_ms:
            return False
        return self._matches is None or self._matches(transaction.transactional_id.encode()) is not None
