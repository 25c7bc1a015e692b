"""OffsetFetch (9), versions 1 to 10.

v2 every topic of a group, an error of the group's own; v5 leader epochs, v7 stable offsets only (KIP-447), v8 many
groups (KIP-709), v9 members of the consumer protocol (KIP-848), v10 topic ids.
"""

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.in_turns import in_turns
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.types import ZERO_UUID

_GROUP_ERROR_SINCE = 2
_MANY_GROUPS_SINCE = 8
_TOPIC_IDS_SINCE = 10


def handle(node: Node, request: OffsetFetchRequest, context: RequestContext) -> Promise[OffsetFetchResponse]:
    if context.api_version >= _MANY_GROUPS_SINCE:

        def fetched(group: OffsetFetchRequestGroup) -> Promise[OffsetFetchResponseGroup]:
            return _fetch(node, group, request.require_stable, context)

        groups = in_turns(node.clock, request.groups, fetched)
        return groups.map(lambda all_groups: OffsetFetchResponse(groups=all_groups))
    return _fetch(node, _one_group(request), request.require_stable, context).map(_of_one_group)


def _one_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Returns the request as later versions send it."""
    if request.topics is None:
        return OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    topics = [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
    ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _fetch(
    node: Node, group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> Promise[OffsetFetchResponseGroup]:
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None and context.api_version >= _TOPIC_IDS_SINCE:
        unknown = _take_unknown_ids(node, group)
    fetched = node.groups.run(
        group.group_id, lambda shard: Decision((), shard.offsets.fetch(group, require_stable=require_stable))
    )

    def completed(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if context.api_version >= _TOPIC_IDS_SINCE and not response.error_code:
            response.topics = [*_with_ids(node, response), *unknown]
        return response

    return fetched.or_else(lambda error: _refused(group, error, context.api_version)).map(completed)


def _take_unknown_ids(node: Node, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Gives the topics of the request their names, and takes out those that do not exist."""
    known, unknown = [], []
    for topic in group.topics or ():
        if (image := node.image.topic_by_id(topic.topic_id)) is not None:
            topic.name = image.name
            known.append(topic)
        else:
            unknown.append(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    group.topics = known
    return unknown


def _with_ids(node: Node, response: OffsetFetchResponseGroup) -> list[OffsetFetchResponseTopics]:
    """Leaves out topics that are gone, where everything was asked for: they have no id any more."""
    topics = []
    for topic in response.topics:
        if topic.topic_id == ZERO_UUID and (image := node.image.topic(topic.name)) is not None:
            topic.topic_id = image.topic_id
        if topic.topic_id != ZERO_UUID:
            topics.append(topic)
    return topics


def _refused(group: OffsetFetchRequestGroup, error: KafkaError, api_version: int) -> OffsetFetchResponseGroup:
    if api_version >= _GROUP_ERROR_SINCE:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=error.code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_failed(topic, error.code) for topic in group.topics or ()]
    )


def _failed(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _of_one_group(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
