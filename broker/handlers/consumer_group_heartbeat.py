"""ConsumerGroupHeartbeat (68), versions 0 and 1 (KIP-848): v1 regular expressions, and member ids from clients.

A member joins, acknowledges, leaves and stays alive with one request: fields that it leaves out have not changed.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    node: Node, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Promise[ConsumerGroupHeartbeatResponse]:
    beaten = node.groups.run(
        request.group_id, lambda shard: shard.consumer.consumer_group_heartbeat(request, context.client)
    )
    return beaten.or_else(_refused)


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error.code,
        error_message=error.message or None,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
