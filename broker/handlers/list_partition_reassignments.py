"""ListPartitionReassignments (46), version 0: there are none. Like Kafka it does not say that a topic is unknown."""

from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    _node: Node, _request: ListPartitionReassignmentsRequest, _context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=())
