"""DeleteTopics (20), versions 1 to 6: v5 error messages, v6 by topic id."""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.own_image import when_seen_here
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.metadata.image import MetadataImage


def handle(node: Node, request: DeleteTopicsRequest, context: RequestContext) -> Promise[DeleteTopicsResponse]:
    deleted: Promise[DeleteTopicsResponse] = node.controller.submit(request, context.for_controller)
    return when_seen_here(node, context, deleted, _is_seen).or_else(lambda error: _refused(request, error))


def _is_seen(response: DeleteTopicsResponse, image: MetadataImage) -> bool:
    return all(image.topic_by_id(topic.topic_id) is None for topic in response.responses if not topic.error_code)


def _refused(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Answers every topic with the error for which the controller refused the request."""
    asked = [(topic.name, topic.topic_id) for topic in request.topics] or [(n, ZERO_UUID) for n in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
            for name, topic_id in asked
        ],
    )
