"""FindCoordinator (10), versions 0 to 6.

v1 transaction coordinators, v4 many keys in one request (KIP-699), v6 share groups.

- The coordinator of a group leads its partition of `__consumer_offsets`. The first request waits until that topic is
  there; Kafka answers COORDINATOR_NOT_AVAILABLE, and the client asks again.
- While the coordinator may be dead, the answer waits a moment for the next one (`suspected_leaders.py`).
- Transactions and share groups have no coordinator here: UNSUPPORTED_VERSION, so that nobody asks again and again.
"""

from collections.abc import Iterable, Sequence

from barnabas.base.promise import Promise
from barnabas.broker.handlers.auto_creation import create_topics
from barnabas.broker.handlers.suspected_leaders import when_leaders_are_known
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import CoordinatorNotAvailable, ErrorCode, InvalidRequest, KafkaError, UnsupportedVersion
from barnabas.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, MetadataImage

GROUP = 0
_KEY_TYPES = {0: "groups", 1: "transactions", 2: "share groups"}
_MANY_KEYS_SINCE = 4
_SHARE_GROUPS_SINCE = 6


def handle(
    node: Node, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Promise[FindCoordinatorResponse]:
    keys = request.coordinator_keys if context.api_version >= _MANY_KEYS_SINCE else [request.key]
    key_type = request.key_type
    if key_type not in _KEY_TYPES or (key_type == 2 and context.api_version < _SHARE_GROUPS_SINCE):
        return _refused(keys, InvalidRequest(f"there is no coordinator of type {key_type}"), context)
    if key_type != GROUP:
        return _refused(keys, UnsupportedVersion(f"this broker coordinates no {_KEY_TYPES[key_type]}"), context)
    if node.image.topic(GROUP_METADATA_TOPIC) is not None:
        return when_leaders_are_known(
            node, lambda image: _leaders(node, image, keys), lambda: _found(node, keys, context)
        )

    def created(errors: dict[str, ErrorCode]) -> FindCoordinatorResponse:
        code = errors.get(GROUP_METADATA_TOPIC)
        if code is not None:
            why = f"{GROUP_METADATA_TOPIC} could not be created: {code.name}"
            return _refused(keys, CoordinatorNotAvailable(why), context)
        if node.image.topic(GROUP_METADATA_TOPIC) is None:
            why = f"{GROUP_METADATA_TOPIC} was created, but this broker does not know it so far"
            return _refused(keys, CoordinatorNotAvailable(why), context)
        return _found(node, keys, context)

    return create_topics(node, [GROUP_METADATA_TOPIC]).map(created)


def _leaders(node: Node, image: MetadataImage, keys: Sequence[str]) -> Iterable[int]:
    topic = image.topic(GROUP_METADATA_TOPIC)
    partitions = () if topic is None else topic.partitions
    return [partitions[node.groups.partition_of(key)].leader for key in keys if partitions]


def _found(node: Node, keys: Sequence[str], context: RequestContext) -> FindCoordinatorResponse:
    topic = node.image.topic(GROUP_METADATA_TOPIC)
    assert topic is not None, "it was there or has been created"
    endpoints = {
        registered.broker_id: (host, port)
        for registered, host, port in node.endpoints(context.session)
        if registered.broker_id not in node.suspected
    }

    def coordinator(group_id: str) -> Coordinator:
        leader = topic.partitions[node.groups.partition_of(group_id)].leader
        if leader not in endpoints:
            return _none(group_id, CoordinatorNotAvailable("the coordinator of the group is down"))
        host, port = endpoints[leader]
        return Coordinator(key=group_id, node_id=leader, host=host, port=port)

    return _response([coordinator(key) for key in keys], context)


def _refused(keys: Sequence[str], error: KafkaError, context: RequestContext) -> FindCoordinatorResponse:
    return _response([_none(key, error) for key in keys], context)


def _none(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message)


def _response(coordinators: list[Coordinator], context: RequestContext) -> FindCoordinatorResponse:
    if context.api_version >= _MANY_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=coordinators)
    (one,) = coordinators
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )
