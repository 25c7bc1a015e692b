"""CreateTopics (19), versions 2 to 7.

v4 defaults for -1, v5 the configuration in the answer (KIP-525), v7 topic ids.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


def handle(broker: Broker, request: CreateTopicsRequest, _context: RequestContext) -> Promise[CreateTopicsResponse]:
    created = broker.controller.submit(lambda controller, image: controller.create_topics(request, image))
    return created.or_else(lambda error: _refused(request, error))


def _refused(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """The metadata log takes no records."""
    return CreateTopicsResponse(
        throttle_time_ms=0,
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ],
    )
