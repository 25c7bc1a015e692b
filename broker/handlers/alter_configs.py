"""AlterConfigs (33), versions 0 to 2: replaces everything that is set; IncrementalAlterConfigs is the one to use."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(broker: Broker, request: AlterConfigsRequest, _context: RequestContext) -> Promise[AlterConfigsResponse]:
    altered = broker.controller.submit(lambda controller, image: controller.alter_configs(request, image))
    return altered.or_else(lambda error: _refused(request, error))


def _refused(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """The metadata log takes no records."""
    return AlterConfigsResponse(
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
