"""Metadata (3), versions 0 to 13.

v1 null for all topics (in v0 an empty list means all), v4 says whether unknown topics may be created, v5 offline
replicas, v7 leader epochs, v8 to v10 authorized operations, v10 topic ids in the answer, v12 in the question too, v13
an error code.

Kafka answers the first question about a topic that it creates with UNKNOWN_TOPIC_OR_PARTITION; the answer here waits
for the topic. Every client takes that for a broker that was quick.
"""

from collections.abc import Iterable

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
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
from barnabas.replication.image import NO_LEADER, TopicImage
from barnabas.replication.topic_names import check_topic_name

ALL_TOPIC_OPERATIONS = 3576
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, as bits of their codes."""
ALL_CLUSTER_OPERATIONS = 8096
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS and IDEMPOTENT_WRITE likewise."""
_NOT_ASKED = -(2**31)
_TOPIC_IDS_SINCE = 12


def handle(
    broker: Broker, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Promise[MetadataResponse]:
    if _wants_all(request, context.api_version):
        topics = [_found(topic, request) for topic in broker.image.topics.values()]
        return _response(broker, request, context, topics)
    asked = request.topics or ()
    if any(_is_malformed(topic, context.api_version) for topic in asked):
        return _response(broker, request, context, [_malformed(topic) for topic in asked])
    missing = _to_create(broker, request)
    if not missing:
        return _response(broker, request, context, _topics(broker, request, {}))
    created = broker.topic_creation.create(missing)
    return created.map(lambda errors: _response(broker, request, context, _topics(broker, request, errors)))


def _wants_all(request: MetadataRequest, api_version: int) -> bool:
    return request.topics is None or (api_version == 0 and not request.topics)


def _is_malformed(topic: MetadataRequestTopic, api_version: int) -> bool:
    return api_version < _TOPIC_IDS_SINCE and (topic.name is None or topic.topic_id != ZERO_UUID)


def _to_create(broker: Broker, request: MetadataRequest) -> list[str]:
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return []
    names = (topic.name for topic in request.topics or () if topic.topic_id == ZERO_UUID)
    return list(dict.fromkeys(name for name in names if name is not None and broker.image.topic(name) is None))


def _topics(broker: Broker, request: MetadataRequest, errors: dict[str, ErrorCode]) -> Iterable[MetadataResponseTopic]:
    for asked in request.topics or ():
        if asked.topic_id != ZERO_UUID:
            topic = broker.image.topic_by_id(asked.topic_id)
            yield _found(topic, request) if topic else _refused(asked, ErrorCode.UNKNOWN_TOPIC_ID)
        elif asked.name is None:
            yield _refused(asked, ErrorCode.UNKNOWN_TOPIC_ID)
        elif (topic := broker.image.topic(asked.name)) is not None:
            yield _found(topic, request)
        else:
            yield _refused(asked, errors.get(asked.name) or _why_unknown(asked.name))


def _why_unknown(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(asked: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=asked.name, topic_id=asked.topic_id, partitions=())


def _malformed(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    """The versions in which a topic must have a name cannot answer without one either."""
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", topic_id=asked.topic_id, partitions=()
    )


def _found(topic: TopicImage, request: MetadataRequest) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else 0,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=partition.offline_replicas,
            )
            for index, partition in enumerate(topic.partitions)
        ],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else _NOT_ASKED,
    )


def _response(
    broker: Broker, request: MetadataRequest, context: RequestContext, topics: Iterable[MetadataResponseTopic]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.broker_id, host=host, port=port, rack=node.rack)
            for node, host, port in broker.endpoints(context.connection)
        ],
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_id,
        topics=list(topics),
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else _NOT_ASKED,
    )
