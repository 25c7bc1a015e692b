"""FindCoordinator (10), versions 0 to 6.

v1 transaction coordinators, v4 many keys in one request (KIP-699), v6 share groups.

- The coordinator of a group leads its partition of `__consumer_offsets`, that of a transactional id its partition of
  `__transaction_state`. The first request waits until that topic is there; Kafka answers COORDINATOR_NOT_AVAILABLE, and
  the client asks again.
- While the coordinator may be dead, the answer waits a moment for the next one (`suspected_leaders.py`).
- Share groups have no coordinator here: UNSUPPORTED_VERSION, so that nobody asks again and again.
"""

from collections.abc import Callable, Iterable, Sequence

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
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, MetadataImage

_TOPICS = {0: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC}
"""The topic that belongs to each type of key."""
_SHARE_GROUP = 2
_MANY_KEYS_SINCE = 4
_SHARE_GROUPS_SINCE = 6


def handle(
    node: Node, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Promise[FindCoordinatorResponse]:
    keys = request.coordinator_keys if context.api_version >= _MANY_KEYS_SINCE else [request.key]
    key_type = request.key_type
    if key_type == _SHARE_GROUP and context.api_version >= _SHARE_GROUPS_SINCE:
        return _refused(keys, UnsupportedVersion("this broker coordinates no share groups"), context)
    name = _TOPICS.get(key_type)
    if name is None:
        return _refused(keys, InvalidRequest(f"there is no coordinator of type {key_type}"), context)
    if node.image.topic(name) is not None:
        return when_leaders_are_known(
            node, lambda image: _leaders(node, image, name, keys), lambda: _found(node, name, keys, context)
        )

    def created(errors: dict[str, ErrorCode]) -> FindCoordinatorResponse:
        code = errors.get(name)
        if code is not None:
            return _refused(keys, CoordinatorNotAvailable(f"{name} could not be created: {code.name}"), context)
        if node.image.topic(name) is None:
            why = f"{name} was created, but this broker does not know it so far"
            return _refused(keys, CoordinatorNotAvailable(why), context)
        return _found(node, name, keys, context)

    return create_topics(node, [name]).map(created)


def _partition_of(node: Node, name: str) -> Callable[[str], int]:
    return node.groups.partition_of if name == GROUP_METADATA_TOPIC else node.transactions.partition_of


def _leaders(node: Node, image: MetadataImage, name: str, keys: Sequence[str]) -> Iterable[int]:
    topic, partition_of = image.topic(name), _partition_of(node, name)
    partitions = () if topic is None else topic.partitions
    return [partitions[partition_of(key)].leader for key in keys if partitions]


def _found(node: Node, name: str, keys: Sequence[str], context: RequestContext) -> FindCoordinatorResponse:
    topic, partition_of = node.image.topic(name), _partition_of(node, name)
    assert topic is not None, "it was there or has been created"
    endpoints = {
        registered.broker_id: (host, port)
        for registered, host, port in node.endpoints(context.session)
        if registered.broker_id not in node.suspected
    }

    def coordinator(key: str) -> Coordinator:
        leader = topic.partitions[partition_of(key)].leader
        if leader not in endpoints:
            return _none(key, CoordinatorNotAvailable(f"the coordinator of {key} is down"))
        host, port = endpoints[leader]
        return Coordinator(key=key, node_id=leader, host=host, port=port)

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
