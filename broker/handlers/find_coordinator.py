"""FindCoordinator (10), versions 0 to 6.

v1 transaction coordinators, v4 many keys in one request (KIP-699), v6 share groups.

There is no coordinator yet, and the answer says so. It has to be advertised all the same: without it librdkafka takes
the broker for one so old that it sends everything uncompressed.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_MANY_KEYS_SINCE = 4
_WHY = "this broker has no group or transaction coordinator yet"


def handle(_broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if context.api_version < _MANY_KEYS_SINCE:
        return FindCoordinatorResponse(error_code=code, error_message=_WHY, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=_WHY)
            for key in request.coordinator_keys
        ]
    )
