"""TxnOffsetCommit (28), versions 0 to 5.

v2 leader epochs, v3 the member that has read and its generation (KIP-447), v4 TRANSACTION_ABORTABLE, v5 the partition
of `__consumer_offsets` joins the transaction by this request (KIP-890). Answered when the offsets are stored; they
count when the transaction is committed.

Partitions that do not exist are refused one by one; the group gets the others only. Unlike with Produce, the client is
told CONCURRENT_TRANSACTIONS at once, as by Kafka: it tries again by itself.
"""

from collections.abc import Iterable

from barnabas.base.promise import Promise, failed, resolved
from barnabas.broker.coordinator.decision import TransactionalProducer
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.broker.transactions.verification import ClientVersion
from barnabas.protocol.errors import ErrorCode, InvalidGroupId, KafkaError
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.types import TopicPartition

_LOAD_IN_PROGRESS_SINCE = 2
_Answers = list[tuple[str, list[TxnOffsetCommitResponsePartition]]]
"""Partitions by the names of their topics."""


def handle(
    node: Node, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    unknown = _take_unknown(node, request)
    if not request.topics:
        return _response(unknown, context.api_version)
    committed = _commit(node, request, ClientVersion.of_txn_offset_commit(context.api_version))
    answered = committed.map(lambda response: [(topic.name, list(topic.partitions)) for topic in response.topics])
    return answered.or_else(lambda error: _refused(request.topics, error.code)).map(
        lambda answers: _response([*unknown, *answers], context.api_version)
    )


def _take_unknown(node: Node, request: TxnOffsetCommitRequest) -> _Answers:
    """Takes out of the request what does not exist, and returns the answers to it."""
    known, unknown = [], []
    for topic in request.topics:
        image = node.image.topic(topic.name)
        count = 0 if image is None else len(image.partitions)
        there = [each for each in topic.partitions if 0 <= each.partition_index < count]
        missing = [each for each in topic.partitions if not 0 <= each.partition_index < count]
        if there:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=there))
        if missing:
            unknown.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=missing))
    request.topics = known
    return _refused(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _commit(
    node: Node, request: TxnOffsetCommitRequest, client_version: ClientVersion
) -> Promise[TxnOffsetCommitResponse]:
    group_id = request.group_id
    if not group_id:
        return failed(InvalidGroupId("the group id is empty"))
    is_v2 = client_version >= ClientVersion.V2
    is_asked = is_v2 or node.config.transaction_partition_verification_enable

    def verify(partition: TopicPartition) -> Promise[KafkaError | None]:
        if not is_asked:
            return resolved(None)
        refusals = node.transaction_verifier.verify(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [partition],
            client_version=client_version,
        )
        return refusals.map(lambda refused: refused.get(partition))

    producer = TransactionalProducer(request.producer_id, request.producer_epoch, is_v2)
    return node.groups.run_in_transaction(
        group_id, producer, verify, lambda shard: shard.offsets.commit_in_transaction(request)
    )


def _refused(topics: Iterable[TxnOffsetCommitRequestTopic], code: ErrorCode) -> _Answers:
    return [
        (
            topic.name,
            [
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def _response(answers: _Answers, api_version: int) -> TxnOffsetCommitResponse:
    """Returns one entry for each topic, whatever became of its partitions."""
    merged: dict[str, list[TxnOffsetCommitResponsePartition]] = {}
    for name, partitions in answers:
        merged.setdefault(name, []).extend(partitions)
    if api_version < _LOAD_IN_PROGRESS_SINCE:
        for partition in (partition for partitions in merged.values() for partition in partitions):
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # clients of old end with this
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic(name=name, partitions=partitions) for name, partitions in merged.items()]
    )
