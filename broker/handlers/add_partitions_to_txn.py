"""AddPartitionsToTxn (24), versions 0 to 5.

v2 a code of its own for a producer that was fenced; v4, between brokers, many transactions in one request, and
partitions that are only checked; v5 that a transaction may only be aborted (KIP-890).

All partitions of a transaction are added or none: if one cannot be, or is not there to be checked, the others are
answered OPERATION_NOT_ATTEMPTED. Clients cannot add internal topics: offsets have an API of their own. What clients of
versions 0 to 3 add is written by the first rules, what brokers add by the second. A client's request waits while the
last transaction is ending. A broker's is answered at once, because it holds the questions of other transactions too.
"""

from collections.abc import Iterable, Mapping

from barnabas.base.promise import Promise, all_of, resolved
from barnabas.broker.handlers.fenced_producers import code_for
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import INTERNAL_TOPICS

_PRODUCER_FENCED_SINCE = 2
_BETWEEN_BROKERS_SINCE = 4

Results = list[AddPartitionsToTxnTopicResult]


def handle(
    node: Node, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Promise[AddPartitionsToTxnResponse]:
    if context.api_version < _BETWEEN_BROKERS_SINCE:
        return _added_or_verified(node, _of_client(request), context).map(
            lambda results: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        )
    results = [_result(node, transaction, context) for transaction in request.transactions]
    return all_of(results).map(lambda results: AddPartitionsToTxnResponse(results_by_transaction=results))


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _result(
    node: Node, transaction: AddPartitionsToTxnTransaction, context: RequestContext
) -> Promise[AddPartitionsToTxnResult]:
    return _added_or_verified(node, transaction, context).map(
        lambda results: AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)
    )


def _added_or_verified(
    node: Node, transaction: AddPartitionsToTxnTransaction, context: RequestContext
) -> Promise[Results]:
    partitions = _partitions(transaction.topics)
    is_client = context.api_version < _BETWEEN_BROKERS_SINCE
    wrong = {partition: error for partition in partitions if (error := _error(node, partition, is_client=is_client))}
    if wrong:
        return resolved(_results(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong))

    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return (
            node.transactions.verify_partitions(*producer, partitions)
            .or_else(lambda error: dict.fromkeys(partitions, _code_for(error, context)))
            .map(_results)
        )
    client_version = 0 if is_client else 2
    added = node.transactions.add_partitions(*producer, partitions, client_version=client_version, waits=is_client)
    return (
        added.map(lambda _: ErrorCode.NONE)
        .or_else(lambda error: _code_for(error, context))
        .map(lambda code: _of_each(transaction.topics, code))
    )


def _code_for(error: KafkaError, context: RequestContext) -> ErrorCode:
    return code_for(error, context.api_version, _PRODUCER_FENCED_SINCE)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _error(node: Node, partition: TopicPartition, *, is_client: bool) -> ErrorCode:
    """Returns what is wrong with the partition itself."""
    if is_client and partition.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = node.image.topic(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _of_each(topics: Iterable[AddPartitionsToTxnTopic], code: ErrorCode) -> Results:
    """Returns the one result of everything, in the words of the request."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _results(errors: Mapping[TopicPartition, ErrorCode]) -> Results:
    """Returns what became of each partition, once for each."""
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for partition, code in errors.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=partition.partition, partition_error_code=code)
        topics.setdefault(partition.topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()]
