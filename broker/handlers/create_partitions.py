"""CreatePartitions (37), versions 0 to 3: a topic only ever gets more partitions."""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.own_image import when_seen_here
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from barnabas.replication.metadata.image import MetadataImage


def handle(node: Node, request: CreatePartitionsRequest, context: RequestContext) -> Promise[CreatePartitionsResponse]:
    created: Promise[CreatePartitionsResponse] = node.controller.submit(request, context.for_controller)
    if not request.validate_only:
        counts = {topic.name: topic.count for topic in request.topics}

        def is_seen(response: CreatePartitionsResponse, image: MetadataImage) -> bool:
            grown = [result.name for result in response.results if not result.error_code]
            return all(image.partition(name, counts[name] - 1) is not None for name in grown)

        created = when_seen_here(node, context, created, is_seen)
    return created.or_else(lambda error: _refused(request, error))


def _refused(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Answers every topic with the error for which the controller refused the request."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ],
    )
