"""DescribeConfigs (32), versions 1 to 4: v1 synonyms, v3 types and documentation (KIP-569)."""

from collections.abc import Sequence

from barnabas.base.promise import Promise, resolved
from barnabas.broker.config.describe import DescribedConfig
from barnabas.broker.handlers.repeats import Repeats
from barnabas.broker.in_turns import in_turns
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from barnabas.replication.controller.topic_names import check_topic_name

_AT_ONCE = 20
"""Resources in one turn of the loop: a broker's keys take two milliseconds."""


def handle(node: Node, request: DescribeConfigsRequest, _context: RequestContext) -> Promise[DescribeConfigsResponse]:
    repeats = Repeats()

    def described(resource: DescribeConfigsResource) -> Promise[DescribeConfigsResult]:
        return resolved(_resource(node, resource, request, repeats))

    results = in_turns(node.clock, request.resources, described, at_once=_AT_ONCE)
    return results.map(lambda results: DescribeConfigsResponse(results=results))


def _resource(
    node: Node, resource: DescribeConfigsResource, request: DescribeConfigsRequest, repeats: Repeats
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_code=0,
        error_message="",  # as Kafka says it: not null
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )
    try:
        repeats.check((resource.resource_type, resource.resource_name))
        result.configs = [_config(config, request) for config in _described(node, resource)]
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _described(node: Node, resource: DescribeConfigsResource) -> list[DescribedConfig]:
    name, keys = resource.resource_name, resource.configuration_keys
    match resource.resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if node.image.topic(name) is None:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            return node.configuration.describer.topic(node.image.config(ResourceType.TOPIC, name), keys)
        case ResourceType.BROKER if not name:
            return node.configuration.describer.cluster_default(keys)
        case ResourceType.BROKER:
            _check_node(node, name)
            return node.configuration.describer.broker(keys)
        case ResourceType.BROKER_LOGGER:
            _check_node(node, name)
            return []  # the log has one level, which is set at start
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            return node.configuration.describer.group(node.image.config(ResourceType.GROUP, name), keys)
        case ResourceType.CLIENT_METRICS if name:
            return []  # no key of theirs is served
    raise InvalidRequest(f"resource type {resource.resource_type} with name {name!r} has no configuration")


def _check_node(node: Node, name: str) -> None:
    if not name.isdecimal():
        raise InvalidRequest(f"a broker is named by its node id, not by {name!r}")
    if len(name) > 10 or int(name) != node.node_id:
        raise InvalidRequest(f"broker {name} describes its own configuration; this one is {node.node_id}")


def _config(config: DescribedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in config.synonyms
        ]
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.is_sensitive,
        synonyms=synonyms,
        config_type=config.config_type,
        documentation=config.documentation if request.include_documentation else None,
    )
