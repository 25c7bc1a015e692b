"""DeleteTopics (20), versions 1 to 6: v5 error messages, v6 by topic id."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.types import ZERO_UUID


def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> Promise[DeleteTopicsResponse]:
    deleted = broker.controller.submit(
        lambda controller, image: controller.delete_topics(request, image, api_version=context.api_version)
    )
    return deleted.or_else(lambda error: _refused(request, error))


def _refused(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """The metadata log takes no records."""
    asked = [(topic.name, topic.topic_id) for topic in request.topics] or [(n, ZERO_UUID) for n in request.topic_names]
    return DeleteTopicsResponse(
        throttle_time_ms=0,
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
            for name, topic_id in asked
        ],
    )
