"""IncrementalAlterConfigs (44), versions 0 and 1: set, delete, append, subtract, one key at a time (KIP-339)."""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.alter_configs import alter
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.replication.controller.configuration_control import AlterResponse


def handle(
    node: Node, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> AlterResponse | Promise[AlterResponse]:
    return alter(node, request, context)
