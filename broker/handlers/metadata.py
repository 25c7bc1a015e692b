"""Metadata (3), versions 0 to 13.

v1 null for all topics (in v0 an empty list means all, and replicas that are offline are left out), v4 says whether
unknown topics may be created, v5 offline replicas, v6 LISTENER_NOT_FOUND, v7 leader epochs, v8 to v10 authorized
operations, v10 topic ids in the answer, v12 in the question too, v13 an error code.

Kafka answers the first request for a topic that it creates with UNKNOWN_TOPIC_OR_PARTITION; the answer here waits for
the topic. To a client, that looks like a broker that was quick.
Ours: while a leader may be dead, the answer waits a moment for the next one (`suspected_leaders.py`).
"""

from collections.abc import Collection, Iterable

from barnabas.base.promise import Promise
from barnabas.broker.authorization import (
    ALL_CLUSTER_OPERATIONS,
    ALL_TOPIC_OPERATIONS,
    OPERATIONS_NOT_ASKED_FOR,
)
from barnabas.broker.handlers.auto_creation import create_topics
from barnabas.broker.handlers.replica_states import ReplicaStates
from barnabas.broker.handlers.suspected_leaders import leaders_of, when_leaders_are_known
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.controller.topic_names import check_topic_name
from barnabas.replication.metadata.image import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    TopicImage,
)

_LISTENER_NOT_FOUND_SINCE = 6
_TOPIC_IDS_SINCE = 12
_NOT_CREATED = INTERNAL_TOPICS - {GROUP_METADATA_TOPIC}
"""Only one of the internal topics is served so far: the others would be created as if they were a client's."""


def handle(
    node: Node, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Promise[MetadataResponse]:
    if _wants_all(request, context.api_version):
        return when_leaders_are_known(
            node,
            lambda image: leaders_of(image.topics.values()),
            lambda: _response(node, request, context, _all_topics(node, request, context)),
        )
    if any(_is_malformed(topic, context.api_version) for topic in request.topics or ()):
        return _malformed(request)
    asked = _asked(request)
    missing = _to_create(node, request, asked)

    def answer(errors: dict[str, ErrorCode]) -> MetadataResponse:
        return _response(node, request, context, _topics(node, request, context, asked, errors))

    if missing:
        return create_topics(node, missing).map(answer)
    return when_leaders_are_known(
        node, lambda image: leaders_of(_topic(image, topic) for topic in asked), lambda: answer({})
    )


def _wants_all(request: MetadataRequest, api_version: int) -> bool:
    return request.topics is None or (api_version == 0 and not request.topics)


def _is_malformed(topic: MetadataRequestTopic, api_version: int) -> bool:
    return api_version < _TOPIC_IDS_SINCE and (topic.name is None or topic.topic_id != ZERO_UUID)


def _asked(request: MetadataRequest) -> Collection[MetadataRequestTopic]:
    """Returns every topic once. Where there are ids, names are ignored: Kafka answers by one or by the other."""
    topics = request.topics or ()
    by_id = {topic.topic_id: topic for topic in topics if topic.topic_id != ZERO_UUID}
    return by_id.values() if by_id else {topic.name: topic for topic in topics}.values()


def _topic(image: MetadataImage, asked: MetadataRequestTopic) -> TopicImage | None:
    if asked.topic_id != ZERO_UUID:
        return image.topic_by_id(asked.topic_id)
    return image.topic(asked.name) if asked.name is not None else None


def _to_create(node: Node, request: MetadataRequest, asked: Iterable[MetadataRequestTopic]) -> list[str]:
    if not (request.allow_auto_topic_creation and node.config.auto_create_topics_enable):
        return []
    names = (topic.name for topic in asked if topic.topic_id == ZERO_UUID)
    wanted = (name for name in names if name is not None and name not in _NOT_CREATED)
    return [name for name in wanted if node.image.topic(name) is None]


def _all_topics(node: Node, request: MetadataRequest, context: RequestContext) -> Iterable[MetadataResponseTopic]:
    states = ReplicaStates(node.image, context.session.listener, node.suspected)
    return [_found(topic, request, states, context.api_version) for topic in node.image.topics.values()]


def _topics(
    node: Node,
    request: MetadataRequest,
    context: RequestContext,
    topics: Iterable[MetadataRequestTopic],
    errors: dict[str, ErrorCode],
) -> Iterable[MetadataResponseTopic]:
    states = ReplicaStates(node.image, context.session.listener, node.suspected)
    for asked in topics:
        if (topic := _topic(node.image, asked)) is not None:
            yield _found(topic, request, states, context.api_version)
        elif asked.topic_id != ZERO_UUID or asked.name is None:
            yield _unknown_id(asked)
        else:
            yield _refused(asked.name, errors.get(asked.name) or why_unknown(asked.name), request)


def why_unknown(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _unknown_id(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_ID
    return MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id, partitions=())


def _refused(name: str, code: ErrorCode, request: MetadataRequest) -> MetadataResponseTopic:
    """Describes a topic that does not exist. Its authorized operations, and whether it is internal, are known."""
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=_operations(request),
    )


def _malformed(request: MetadataRequest) -> MetadataResponse:
    """Refuses the whole request, without brokers. Versions in which a topic must have a name need one in the answer."""
    code = ErrorCode.INVALID_REQUEST
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=())
        for topic in request.topics or ()
    ]
    return MetadataResponse(brokers=(), topics=topics, error_code=code)


def _operations(request: MetadataRequest) -> int:
    return ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else OPERATIONS_NOT_ASKED_FOR


def _found(
    topic: TopicImage, request: MetadataRequest, states: ReplicaStates, api_version: int
) -> MetadataResponseTopic:
    partitions = [_partition(index, partition, states, api_version) for index, partition in enumerate(topic.partitions)]
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=_operations(request),
    )


def _partition(
    index: int, partition: PartitionImage, states: ReplicaStates, api_version: int
) -> MetadataResponsePartition:
    described = MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=states.leader(partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=states.offline(partition),
    )
    if api_version == 0:  # its clients know no offline replicas: they are left out
        described.replica_nodes, described.isr_nodes = states.online(partition.replicas), states.online(partition.isr)
        if len(described.replica_nodes) < len(partition.replicas) or len(described.isr_nodes) < len(partition.isr):
            described.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    if described.leader_id == NO_LEADER:
        is_listener_missing = partition.leader in states.registered and api_version >= _LISTENER_NOT_FOUND_SINCE
        described.error_code = ErrorCode.LISTENER_NOT_FOUND if is_listener_missing else ErrorCode.LEADER_NOT_AVAILABLE
    return described


def _response(
    node: Node, request: MetadataRequest, context: RequestContext, topics: Iterable[MetadataResponseTopic]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=registered.broker_id, host=host, port=port, rack=registered.rack)
            for registered, host, port in node.endpoints(context.session)
            if registered.broker_id not in node.suspected
        ],
        cluster_id=node.image.cluster_id,
        controller_id=node.controller_id,
        topics=list(topics),
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_ASKED_FOR,
    )
