"""CreateTopics (19), versions 2 to 7.

v4 defaults for -1, v5 the configuration in the answer (KIP-525), v7 topic ids.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


def handle(broker: Broker, request: CreateTopicsRequest, _context: RequestContext) -> Promise[CreateTopicsResponse]:
    return broker.controller.submit(lambda controller, image: controller.create_topics(request, image))
