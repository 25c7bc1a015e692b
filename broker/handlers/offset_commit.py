"""OffsetCommit (8), versions 2 to 10.

v5 no retention time of its own, v6 leader epochs, v7 static members, v9 members of the consumer protocol (KIP-848), v10
topic ids. Answered when the offsets are stored.

Partitions that do not exist are refused one by one; the group gets the others only.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.types import Uuid

_TOPIC_IDS_SINCE = 10


def handle(
    node: Node, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        _sort(node, topic, context.api_version, known, refused)
    if not known:
        return _merged(OffsetCommitResponse(topics=()), refused, by_id=context.api_version >= _TOPIC_IDS_SINCE)
    request.topics = known
    committed = node.groups.run(request.group_id, lambda shard: shard.offsets.commit(request, context.client))
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    answered = committed.or_else(lambda error: _refused(request, error))
    return answered.map(lambda response: _merged(response, refused, by_id=by_id))


def _sort(
    node: Node,
    topic: OffsetCommitRequestTopic,
    api_version: int,
    known: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
) -> None:
    """Puts the partitions that exist into one list, the others into the other."""
    by_id = api_version >= _TOPIC_IDS_SINCE
    image = node.image.topic_by_id(topic.topic_id) if by_id else node.image.topic(topic.name)
    code = ErrorCode.UNKNOWN_TOPIC_ID if image is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    count = 0 if image is None else len(image.partitions)
    there = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
    missing = [
        partition.partition_index for partition in topic.partitions if not 0 <= partition.partition_index < count
    ]
    if missing or image is None:
        refused.append(_topic(topic, missing, code))
    if there and image is not None:
        known.append(OffsetCommitRequestTopic(name=image.name, topic_id=image.topic_id, partitions=there))


def _topic(topic: OffsetCommitRequestTopic, indexes: list[int], code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes],
    )


def _refused(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            _topic(topic, [partition.partition_index for partition in topic.partitions], error.code)
            for topic in request.topics
        ]
    )


def _merged(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic], *, by_id: bool
) -> OffsetCommitResponse:
    """Returns one entry for each topic, whatever became of its partitions."""
    if not refused:
        return response
    merged: dict[str | Uuid, tuple[OffsetCommitResponseTopic, list[OffsetCommitResponsePartition]]] = {}
    for topic in [*refused, *response.topics]:
        merged.setdefault(topic.topic_id if by_id else topic.name, (topic, []))[1].extend(topic.partitions)
    for topic, partitions in merged.values():
        topic.partitions = partitions
    return OffsetCommitResponse(topics=[topic for topic, _ in merged.values()])
