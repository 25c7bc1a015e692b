"""DeleteTopics (20), versions 1 to 6: v5 error messages, v6 by topic id."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> Promise[DeleteTopicsResponse]:
    return broker.controller.submit(
        lambda controller, image: controller.delete_topics(request, image, api_version=context.api_version)
    )
