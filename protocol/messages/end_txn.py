"""EndTxn: the request and the response."""

from barnabas.protocol.schema import boolean, int16, int32, int64, message, string


@message(api_key=26, versions=range(0, 6), flexible_since=3)
class EndTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(api_key=26, versions=range(0, 6), flexible_since=3)
class EndTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1)
    producer_epoch: int = int16(since=5, default=-1)
