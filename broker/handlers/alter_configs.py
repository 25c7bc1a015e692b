"""AlterConfigs (33), versions 0 to 2: replaces everything that is set; IncrementalAlterConfigs is the one to use."""

from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.config.alter import refusals
from barnabas.broker.network.session import ListenerType
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.replication.controller.configuration_control import (
    AlterRequest,
    AlterResponse,
    alterations_of,
    response_to,
)


def handle(node: Node, request: AlterConfigsRequest, context: RequestContext) -> AlterResponse | Promise[AlterResponse]:
    return alter(node, request, context)


def alter(node: Node, request: AlterRequest, context: RequestContext) -> AlterResponse | Promise[AlterResponse]:
    """Answers either of the two requests: refuses what this broker must, and asks the controller about the rest. What
    another broker forwards to this node as the controller has been judged there."""
    is_forwarded = context.listener_type is ListenerType.CONTROLLER
    alterations = alterations_of(request)
    refused = [None] * len(alterations) if is_forwarded else refusals(alterations, node.image, node.config)
    left: Any = [resource for resource, error in zip(request.resources, refused) if error is None]
    if not left:
        return response_to(request, refused)

    def merged(response: AlterResponse) -> AlterResponse:
        whole = response_to(request, refused)
        decided = iter(response.responses)
        whole.responses = [  # type: ignore[assignment]
            next(decided) if error is None else result for result, error in zip(whole.responses, refused)
        ]
        return whole

    def all_refused(reason: KafkaError) -> AlterResponse:
        return response_to(request, [error or reason for error in refused])

    asked = type(request)(resources=left, validate_only=request.validate_only)
    altered: Promise[AlterResponse] = node.controller.submit(asked, context.for_controller)
    return altered.map(merged).or_else(all_refused)
