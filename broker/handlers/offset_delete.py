"""OffsetDelete (47), version 0 (KIP-496): offsets of topics that the group does not read any more."""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, InvalidGroupId
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(
    node: Node, request: OffsetDeleteRequest, _context: RequestContext
) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
    if not request.group_id:
        return _refused(InvalidGroupId.code)
    unknown = []
    for topic in request.topics:
        image = node.image.topic(topic.name)
        count = 0 if image is None else len(image.partitions)
        missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        if missing or image is None:
            unknown.append(_unknown(topic, missing))
            topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
    request.topics = [topic for topic in request.topics if topic.partitions]
    deleted = node.groups.run(request.group_id, lambda shard: shard.offsets.delete(request))

    def merged(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if unknown and not response.error_code:
            response.topics = _merged([*unknown, *response.topics])
        return response

    return deleted.or_else(lambda error: _refused(error.code)).map(merged)


def _merged(topics: Sequence[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    """Returns one entry for each topic, whatever became of its partitions."""
    merged: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in topics:
        merged.setdefault(topic.name, []).extend(topic.partitions)
    return [OffsetDeleteResponseTopic(name=name, partitions=partitions) for name, partitions in merged.items()]


def _unknown(topic: OffsetDeleteRequestTopic, indexes: list[int]) -> OffsetDeleteResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _refused(code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, topics=())
