"""InitProducerId: the request and the response."""

from barnabas.protocol.schema import int16, int32, int64, message, string


@message(api_key=22, versions=range(0, 6), flexible_since=2)
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


@message(api_key=22, versions=range(0, 6), flexible_since=2)
class InitProducerIdResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
