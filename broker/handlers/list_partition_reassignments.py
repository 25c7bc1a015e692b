"""ListPartitionReassignments (46), version 0: the reassignments that are under way (KIP-455).

The controller is asked, which knows of a reassignment at once. Like Kafka it does not say that a topic is unknown.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    node: Node, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Promise[ListPartitionReassignmentsResponse]:
    listed: Promise[ListPartitionReassignmentsResponse] = node.controller.submit(request, context.for_controller)
    return listed.or_else(
        lambda error: ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, topics=())
    )
