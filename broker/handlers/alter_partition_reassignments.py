"""AlterPartitionReassignments (45), versions 0 and 1: partitions move to other brokers (KIP-455).

v1 whether the number of replicas may change (KIP-860).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


def handle(
    node: Node, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Promise[AlterPartitionReassignmentsResponse]:
    altered: Promise[AlterPartitionReassignmentsResponse] = node.controller.submit(request, context.for_controller)
    return altered.or_else(
        lambda error: AlterPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message, responses=()
        )
    )
