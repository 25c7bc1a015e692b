"""AlterConfigs (33), versions 0 to 2: replaces everything that is set; IncrementalAlterConfigs is the one to use."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


def handle(broker: Broker, request: AlterConfigsRequest, _context: RequestContext) -> Promise[AlterConfigsResponse]:
    return broker.controller.submit(lambda controller, image: controller.alter_configs(request, image))
