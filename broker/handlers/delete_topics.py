"""DeleteTopics (20), versions 1 to 6: v5 error messages, v6 by topic id."""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.types import ZERO_UUID


def handle(node: Node, request: DeleteTopicsRequest, context: RequestContext) -> Promise[DeleteTopicsResponse]:
    deleted: Promise[DeleteTopicsResponse] = node.controller.submit(request, context.for_controller)
    return deleted.or_else(lambda error: _refused(request, error))


def _refused(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Answers every topic with the error for which the controller refused the request."""
    asked = [(topic.name, topic.topic_id) for topic in request.topics] or [(n, ZERO_UUID) for n in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
            for name, topic_id in asked
        ],
    )
