"""DescribeTransactions (65), version 0: what the coordinator knows of transactional ids, each for itself."""

from barnabas.base.promise import Promise, all_of
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.broker.transactions.transaction import Transaction
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(
    node: Node, request: DescribeTransactionsRequest, _context: RequestContext
) -> Promise[DescribeTransactionsResponse]:
    described = [_described(node, transactional_id) for transactional_id in request.transactional_ids]
    return all_of(described).map(lambda states: DescribeTransactionsResponse(transaction_states=states))


def _described(node: Node, transactional_id: str) -> Promise[TransactionState]:
    return (
        node.transactions.describe(transactional_id)
        .map(_state)
        .or_else(lambda error: TransactionState(error_code=error.code, transactional_id=transactional_id))
    )


def _state(transaction: Transaction) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
