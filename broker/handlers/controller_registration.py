"""ControllerRegistration (70), version 0.

A controller says where it is and what it supports (KIP-919).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


def handle(
    node: Node, request: ControllerRegistrationRequest, context: RequestContext
) -> Promise[ControllerRegistrationResponse]:
    answered: Promise[ControllerRegistrationResponse] = node.controller.submit(request, context.for_controller)
    return answered.or_else(
        lambda error: ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
    )
