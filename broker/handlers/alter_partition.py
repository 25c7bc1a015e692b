"""AlterPartition (56), versions 2 and 3: a leader says which replicas are in sync (KIP-497).

v2 topic ids (KIP-841), v3 broker epochs of the replicas (KIP-903).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(node: Node, request: AlterPartitionRequest, context: RequestContext) -> Promise[AlterPartitionResponse]:
    altered: Promise[AlterPartitionResponse] = node.controller.submit(request, context.for_controller)
    return altered.or_else(lambda error: AlterPartitionResponse(error_code=error.code))
