"""Envelope (58), version 0: a request that a broker forwards for one of its clients (KIP-590).

What is inside is handled as if the client had sent it here, under the client's principal. The controller may be another
before the answer is known: then the answer is NOT_CONTROLLER, and the broker asks the next one. What the quorum has
answered is so whoever leads it: a controller that is removed from it answers that, and leads no longer.
"""

from ipaddress import ip_address
from typing import Any

from barnabas.base.promise import Promise, resolved
from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.forwarding import decoded_principal
from barnabas.broker.network.session import ListenerType, Session
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.frame import SIZE_BYTES, decode_request_header, encode_response
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import decode_from

FORWARDED = frozenset(
    (
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
    )
)
_ANSWERED_BY_THE_QUORUM = frozenset((ApiKey.ADD_RAFT_VOTER, ApiKey.DESCRIBE_QUORUM, ApiKey.REMOVE_RAFT_VOTER))


def handle(
    node: Node, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse | Promise[EnvelopeResponse]:
    epoch = node.quorum.active_epoch
    if not node.quorum.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = memoryview(bytes(request.request_data))
    header, position = decode_request_header(
        frame, {int(api_key): HANDLERS[api_key].flexible_since for api_key in FORWARDED if api_key in HANDLERS}
    )
    handler = HANDLERS.get(ApiKey(header.api_key)) if header.api_key in FORWARDED else None
    if handler is None or header.api_version not in handler.request.__versions__:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    inner, _ = decode_from(handler.request, header.api_version, frame, position)
    forwarded = RequestContext(
        header.api_version, header.client_id, _session(request, context), ListenerType.CONTROLLER
    )
    response = handler.handle(node, inner, forwarded)

    def enclosed(answer: Any) -> EnvelopeResponse:
        if node.quorum.active_epoch != epoch and header.api_key not in _ANSWERED_BY_THE_QUORUM:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        encoded, _slices = encode_response(answer, header.api_version, header.correlation_id)
        return EnvelopeResponse(response_data=bytes(encoded[SIZE_BYTES:]), error_code=ErrorCode.NONE)

    return (response if isinstance(response, Promise) else resolved(response)).map(enclosed)


def _session(request: EnvelopeRequest, context: RequestContext) -> Session:
    """Returns the client's session as far as the envelope describes it."""
    try:
        host = str(ip_address(bytes(request.client_host_address)))
    except ValueError:
        raise ProtocolError("an envelope whose client has no address") from None
    session = Session(listener=context.session.listener, local=context.session.local, peer=(host, 0))
    if request.request_principal is not None:
        session.principal = decoded_principal(bytes(request.request_principal))
    return session
