"""AssignReplicasToDirs (73), version 0: a broker says in which of its log dirs its replicas lie (KIP-858).

Ours: a partition without a leader gets one by that, if its replica is in a log dir that works; in Kafka it waits for
the next event that concerns it. A replica that has left a log dir which its broker has no more is not eligible to lead.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def handle(
    node: Node, request: AssignReplicasToDirsRequest, context: RequestContext
) -> Promise[AssignReplicasToDirsResponse]:
    answered: Promise[AssignReplicasToDirsResponse] = node.controller.submit(request, context.for_controller)
    return answered.or_else(lambda error: AssignReplicasToDirsResponse(error_code=error.code))
