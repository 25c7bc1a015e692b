"""CreatePartitions (37), versions 0 to 3: a topic only ever gets more partitions."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def handle(
    broker: Broker, request: CreatePartitionsRequest, _context: RequestContext
) -> Promise[CreatePartitionsResponse]:
    created = broker.controller.submit(lambda controller, image: controller.create_partitions(request, image))
    return created.or_else(lambda error: _refused(request, error))


def _refused(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """The metadata log takes no records."""
    return CreatePartitionsResponse(
        throttle_time_ms=0,
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ],
    )
