"""CreatePartitions (37), versions 0 to 3: a topic only ever gets more partitions."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


def handle(
    broker: Broker, request: CreatePartitionsRequest, _context: RequestContext
) -> Promise[CreatePartitionsResponse]:
    return broker.controller.submit(lambda controller, image: controller.create_partitions(request, image))
