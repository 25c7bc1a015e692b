"""TxnOffsetCommit (28), versions 0 to 6.

v2 leader epochs, v3 the member that has read and its generation (KIP-447), v4 TRANSACTION_ABORTABLE, v5 the partition
of `__consumer_offsets` joins the transaction by this request (KIP-890), v6 topic ids, and the errors that OffsetCommit
has for members and groups that are unknown (KIP-1319, Kafka 4.4). Answered when the offsets are stored; they count when
the transaction is committed.

Partitions that do not exist are refused one by one; the group gets the others only. Unlike with Produce, the client is
told CONCURRENT_TRANSACTIONS at once, as by Kafka, where another broker coordinates the transaction: it tries again by
itself.
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
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.types import TopicPartition, Uuid

_LOAD_IN_PROGRESS_SINCE = 2
_TOPIC_IDS_SINCE = 6


def handle(
    node: Node, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    unknown = _take_unknown(node, request, by_id=context.api_version >= _TOPIC_IDS_SINCE)
    if not request.topics:
        return _response(unknown, context.api_version)
    committed = _commit(node, request, context.api_version).map(lambda response: list(response.topics))
    return committed.or_else(
        lambda error: [_refused(topic, topic.partitions, error.code) for topic in request.topics]
    ).map(lambda answered: _response([*unknown, *answered], context.api_version))


def _take_unknown(node: Node, request: TxnOffsetCommitRequest, *, by_id: bool) -> list[TxnOffsetCommitResponseTopic]:
    """Takes out of the request what does not exist, and returns the answers to it."""
    known, unknown = [], []
    for topic in request.topics:
        image = node.image.topic_by_id(topic.topic_id) if by_id else node.image.topic(topic.name)
        code = ErrorCode.UNKNOWN_TOPIC_ID if image is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0 if image is None else len(image.partitions)
        there = [each for each in topic.partitions if 0 <= each.partition_index < count]
        missing = [each for each in topic.partitions if not 0 <= each.partition_index < count]
        if there and image is not None:
            known.append(TxnOffsetCommitRequestTopic(name=image.name, topic_id=topic.topic_id, partitions=there))
        if missing or image is None:
            unknown.append(_refused(topic, missing, code))
    request.topics = known
    return unknown


def _commit(node: Node, request: TxnOffsetCommitRequest, api_version: int) -> Promise[TxnOffsetCommitResponse]:
    group_id, client_version = request.group_id, ClientVersion.of_txn_offset_commit(api_version)
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
        group_id, producer, verify, lambda shard: shard.offsets.commit_in_transaction(request, api_version)
    )


def _refused(
    topic: TxnOffsetCommitRequestTopic, partitions: Iterable[TxnOffsetCommitRequestPartition], code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        ],
    )


def _response(answers: Iterable[TxnOffsetCommitResponseTopic], api_version: int) -> TxnOffsetCommitResponse:
    """Returns one entry for each topic, whatever became of its partitions."""
    by_id = api_version >= _TOPIC_IDS_SINCE
    merged: dict[str | Uuid, tuple[TxnOffsetCommitResponseTopic, list[TxnOffsetCommitResponsePartition]]] = {}
    for topic in answers:
        merged.setdefault(topic.topic_id if by_id else topic.name, (topic, []))[1].extend(topic.partitions)
    for topic, partitions in merged.values():
        topic.partitions = partitions
        for partition in partitions if api_version < _LOAD_IN_PROGRESS_SINCE else ():
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # clients of old end with this
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=[topic for topic, _ in merged.values()])
