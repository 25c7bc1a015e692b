"""From a frame to its handler and back: which API, which version, and what to do with one that is not served.

The Produce of one batch, of which there may be tens of thousands a second, takes a shorter way: `produce_quick`.
Handlers leave `throttle_time_ms` at 0. A quota sets it here, where every response passes.
"""

from collections.abc import Callable
from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import ListenerType, Session
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.frame import RequestHeader, decode_request_header, encode_response
from barnabas.protocol.schema import decode_from

_FLEXIBLE_SINCE: dict[int, int | None] = {int(api_key): handler.flexible_since for api_key, handler in HANDLERS.items()}

assert int(ApiKey.PRODUCE) == 0, "its frames begin with two zeros"


class Dispatcher:
    """Answers the requests of one kind of listener."""

    __slots__ = ("_handlers", "_listener_type", "_node", "_quick_produce")

    def __init__(self, node: Node, listener_type: ListenerType = ListenerType.BROKER) -> None:
        self._node = node
        self._listener_type = listener_type
        self._handlers = {
            int(api_key): handler for api_key, handler in HANDLERS.items() if listener_type in handler.listeners
        }
        serves_produce = int(ApiKey.PRODUCE) in self._handlers
        self._quick_produce: Callable[[memoryview, Session], Promise[Reply] | Reply] = (
            self._first_produce if serves_produce else _not_quickly
        )

    def __call__(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        if len(frame) >= 2 and not (frame[0] or frame[1]):
            reply = self._quick_produce(frame, session)
            if reply is not None:
                return reply
        header, position = decode_request_header(frame, _FLEXIBLE_SINCE)
        handler = self._handlers.get(header.api_key)
        if handler is None or header.api_version not in handler.request.__versions__:
            return _refuse(header)
        # What follows the message is ignored, as by Kafka: librdkafka leaves three bytes after Metadata of all topics
        request, _ = decode_from(handler.request, header.api_version, frame, position)
        context = RequestContext(header.api_version, header.client_id, session, self._listener_type)
        response = handler.handle(self._node, request, context)
        if response is None:
            return None
        if isinstance(response, Promise):
            return response.map(lambda kept: _encoded(kept, header))
        return encode_response(response, header.api_version, header.correlation_id)

    def _first_produce(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        """Imports the quick way with the first Produce: a start can do without it."""
        from barnabas.broker.handlers.produce_quick import QuickProduce

        self._quick_produce = QuickProduce(self._node)
        return self._quick_produce(frame, session)


def _not_quickly(_frame: memoryview, _session: Session) -> None:
    """Leaves everything to the general way."""


def _encoded(response: Any, header: RequestHeader) -> Reply:
    return None if response is None else encode_response(response, header.api_version, header.correlation_id)


def _refuse(header: RequestHeader) -> Reply:
    """Raises for a request that was not advertised, which ends the connection, as in Kafka; answers ApiVersions."""
    if header.api_key == ApiKey.API_VERSIONS:
        from barnabas.broker.handlers.api_versions import unsupported_version

        highest = HANDLERS[ApiKey.API_VERSIONS].versions.stop - 1
        return encode_response(unsupported_version(highest), 0, header.correlation_id)
    try:
        name = ApiKey(header.api_key).name
    except ValueError:
        raise ProtocolError(f"an unknown API {header.api_key}") from None
    raise ProtocolError(f"{name} version {header.api_version}, which this broker does not serve")
