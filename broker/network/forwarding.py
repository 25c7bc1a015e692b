"""Requests to the controller on their way: as they are, or in an Envelope (KIP-590); and out of an Envelope again."""

from importlib import import_module
from ipaddress import ip_address
from typing import Any

from barnabas.base.principal import Principal
from barnabas.base.promise import Promise
from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.frame import SIZE_BYTES, decode_response, encode_request
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import decode, encode
from barnabas.protocol.stored.principal_data import DefaultPrincipalData
from barnabas.replication.controller.channel import ControllerRequestContext

_PRINCIPAL_VERSION = 0


def response_class_of(request: Any) -> type:
    """Returns the response that belongs to a request: both are declared in one module."""
    kind = type(request)
    found: type = getattr(import_module(kind.__module__), kind.__name__.removesuffix("Request") + "Response")
    return found


def send_as_it_is(client: PeerClient, request: Any, timeout_ms: int) -> Promise[Any]:
    """Returns a promise of the response. An error of the whole request fails it."""
    return client.send(request, response_class_of(request), timeout_ms=timeout_ms).map(_checked)


def _checked(response: Any) -> Any:
    if response.error_code != ErrorCode.NONE:
        code = ErrorCode(response.error_code)
        raise KafkaError(getattr(response, "error_message", None) or f"The controller answered {code.name}.", code)
    return response


def send_in_envelope(
    client: PeerClient, request: Any, context: ControllerRequestContext, timeout_ms: int
) -> Promise[Any]:
    frame = encode_request(request, context.api_version, 0, context.client_id)
    envelope = EnvelopeRequest(
        request_data=bytes(frame[SIZE_BYTES:]),
        request_principal=encoded_principal(context.principal),
        client_host_address=ip_address(context.client_host or "127.0.0.1").packed,
    )

    def opened(response: EnvelopeResponse) -> Any:
        _checked(response)
        data = memoryview(bytes(response.response_data or b""))
        return decode_response(response_class_of(request), context.api_version, data)[1]

    return client.send(envelope, EnvelopeResponse, timeout_ms=timeout_ms).map(opened)


def encoded_principal(principal: Principal) -> bytes:
    """Returns a principal as Kafka's brokers send it: a version, then the data."""
    data = DefaultPrincipalData(type=principal.type, name=principal.name, token_authenticated=False)
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + bytes(encode(data, _PRINCIPAL_VERSION))


def decoded_principal(data: bytes) -> Principal:
    """Raises ProtocolError if this is no principal."""
    found = decode(DefaultPrincipalData, _PRINCIPAL_VERSION, memoryview(data), 2)
    return Principal(found.type, found.name)
