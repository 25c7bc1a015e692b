"""IncrementalAlterConfigs (44), versions 0 and 1: set, delete, append, subtract, one key at a time (KIP-339)."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, _context: RequestContext
) -> Promise[IncrementalAlterConfigsResponse]:
    altered = broker.controller.submit(lambda controller, image: controller.incremental_alter_configs(request, image))
    return altered.or_else(lambda error: _refused(request, error))


def _refused(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    """The metadata log takes no records."""
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ],
    )
