"""DescribeClientQuotas (48), versions 0 and 1: there are none, so a valid filter finds nothing."""

from collections.abc import Sequence

from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from barnabas.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"


def handle(_node: Node, request: DescribeClientQuotasRequest, _context: RequestContext) -> DescribeClientQuotasResponse:
    try:
        _check(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(error_code=0, error_message="", entries=())


def _check(components: Sequence[ComponentData]) -> None:
    """Raises for the first thing that Kafka finds wrong with a filter, in its words."""
    seen: set[str] = set()
    for component in components:
        name = component.entity_type
        if not name:
            raise InvalidRequest("Invalid empty entity type.")
        if name in seen:
            raise InvalidRequest(f"Entity type {name} cannot appear more than once in the filter.")
        if name not in (_USER, _CLIENT_ID, _IP):
            raise UnsupportedVersion(f"Unsupported entity type {name}")
        _check_match(component)
        seen.add(name)
    if _IP in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )


def _check_match(component: ComponentData) -> None:
    match component.match_type, component.match is None:
        case (0, True):
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        case (1, False):
            raise InvalidRequest("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
        case (2, False):
            raise InvalidRequest("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
        case (0 | 1 | 2, _):
            return
    raise InvalidRequest(f"Unknown match type {component.match_type}")
