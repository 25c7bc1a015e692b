"""UnregisterBroker: the request and the response."""

from barnabas.protocol.schema import int16, int32, message, string


@message(api_key=64, versions=range(0, 1), flexible_since=0)
class UnregisterBrokerRequest:
    broker_id: int = int32()


@message(api_key=64, versions=range(0, 1), flexible_since=0)
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
