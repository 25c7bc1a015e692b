"""CreateTopics (19), versions 2 to 7.

v4 defaults for -1, v5 the configuration in the answer (KIP-525), v7 topic ids.
"""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.own_image import when_seen_here
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.replication.metadata.image import MetadataImage


def handle(node: Node, request: CreateTopicsRequest, context: RequestContext) -> Promise[CreateTopicsResponse]:
    created: Promise[CreateTopicsResponse] = node.controller.submit(request, context.for_controller)
    if not request.validate_only:
        created = when_seen_here(node, context, created, _is_seen)
    return created.or_else(lambda error: _refused(request, error))


def _is_seen(response: CreateTopicsResponse, image: MetadataImage) -> bool:
    return all(image.topic(topic.name) is not None for topic in response.topics if not topic.error_code)


def _refused(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Answers every topic with the error for which the controller refused the request."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ],
    )
