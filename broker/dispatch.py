"""From a frame to its handler and back: which API, which version, and what to do with one that is not served.

The Produce of one batch, of which there may be tens of thousands a second, has a way of its own: `quick_produce`.
"""

from collections.abc import Callable
from typing import Any

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.connection import Connection, Reply
from barnabas.broker.handlers import HANDLERS
from barnabas.broker.handlers.api_versions import unsupported_version
from barnabas.broker.promise import Promise
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.frame import RequestHeader, decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion
from barnabas.protocol.schema import decode_from

_FLEXIBLE_SINCE: dict[int, int | None] = {int(api_key): handler.flexible_since for api_key, handler in HANDLERS.items()}
_HANDLERS = {int(api_key): handler for api_key, handler in HANDLERS.items()}

assert int(ApiKey.PRODUCE) == 0, "its frames begin with two zeros"

API_VERSIONS = [
    ApiVersion(api_key=api_key, min_version=handler.versions.start, max_version=handler.versions.stop - 1)
    for api_key, handler in HANDLERS.items()
]


class Dispatcher:
    __slots__ = ("_broker", "_quick_produce")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._quick_produce: Callable[[memoryview], Promise[Reply] | Reply] = self._first_produce

    def __call__(self, frame: memoryview, connection: Connection) -> Promise[Reply] | Reply:
        if len(frame) >= 2 and not (frame[0] or frame[1]):
            reply = self._quick_produce(frame)
            if reply is not None:
                return reply
        header, position = decode_request_header(frame, _FLEXIBLE_SINCE)
        handler = _HANDLERS.get(header.api_key)
        if handler is None or header.api_version not in handler.request.__versions__:
            return _refuse(header)
        # What follows the message is ignored, as by Kafka: librdkafka leaves three bytes behind Metadata of all topics
        request, _ = decode_from(handler.request, header.api_version, frame, position)
        context = RequestContext(header.api_version, header.client_id, connection)
        response = handler.handle(self._broker, request, context)
        if response is None:
            return None
        if isinstance(response, Promise):
            return response.map(lambda kept: _encoded(kept, header))
        return encode_response(response, header.api_version, header.correlation_id)

    def _first_produce(self, frame: memoryview) -> Promise[Reply] | Reply:
        """Imports what a start can do without."""
        from barnabas.broker.quick_produce import QuickProduce

        self._quick_produce = QuickProduce(self._broker.replicas, self._broker.clock)
        return self._quick_produce(frame)


def _encoded(response: Any, header: RequestHeader) -> Reply:
    return encode_response(response, header.api_version, header.correlation_id)


def _refuse(header: RequestHeader) -> Reply:
    """A client that asks for what was not advertised is cut off, as by Kafka; except for the question what is."""
    if header.api_key == ApiKey.API_VERSIONS:
        highest = HANDLERS[ApiKey.API_VERSIONS].versions.stop - 1
        return encode_response(unsupported_version(highest), 0, header.correlation_id)
    try:
        name = ApiKey(header.api_key).name
    except ValueError:
        raise ProtocolError(f"an unknown API {header.api_key}") from None
    raise ProtocolError(f"{name} version {header.api_version}, which this broker does not serve")
