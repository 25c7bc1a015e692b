"""ListConfigResources (74), versions 0 and 1: v0 lists client metrics (there are none), v1 any type (KIP-1142)."""

from collections.abc import Iterable

from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_LISTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(node: Node, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    asked = [ResourceType.CLIENT_METRICS] if context.api_version == 0 else request.resource_types or _LISTED
    if any(resource_type not in _LISTED for resource_type in asked):
        code = ErrorCode.UNSUPPORTED_VERSION
        return ListConfigResourcesResponse(error_code=code, config_resources=())
    return ListConfigResourcesResponse(
        error_code=0,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in dict.fromkeys(asked)
            for name in _names(node, resource_type)
        ],
    )


def _names(node: Node, resource_type: int) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return node.image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, node.image.brokers)
    return (resource.name for resource in node.image.configs if resource.type == resource_type)
