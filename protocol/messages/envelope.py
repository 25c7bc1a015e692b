"""Envelope: the request and the response."""

from barnabas.protocol.schema import blob, int16, message


@message(api_key=58, versions=range(0, 1), flexible_since=0)
class EnvelopeRequest:
    request_data: bytes = blob()
    request_principal: bytes | None = blob(nullable=True)
    client_host_address: bytes = blob()


@message(api_key=58, versions=range(0, 1), flexible_since=0)
class EnvelopeResponse:
    response_data: bytes | None = blob(nullable=True, default=None)
    error_code: int = int16()
