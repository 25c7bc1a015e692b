"""UpdateFeatures (57), versions 0 to 2: v1 kinds of downgrade and dry runs (KIP-584), v2 one answer for all."""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def handle(node: Node, request: UpdateFeaturesRequest, context: RequestContext) -> Promise[UpdateFeaturesResponse]:
    updated: Promise[UpdateFeaturesResponse] = node.controller.submit(request, context.for_controller)
    return updated.or_else(
        lambda error: UpdateFeaturesResponse(error_code=error.code, error_message=error.message, results=[])
    )
