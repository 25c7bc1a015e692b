"""IncrementalAlterConfigs (44), versions 0 and 1: set, delete, append, subtract, one key at a time (KIP-339)."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, _context: RequestContext
) -> Promise[IncrementalAlterConfigsResponse]:
    return broker.controller.submit(lambda controller, image: controller.incremental_alter_configs(request, image))
