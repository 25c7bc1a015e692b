"""AddOffsetsToTxn: the request and the response."""

from barnabas.protocol.schema import int16, int32, int64, message, string


@message(api_key=25, versions=range(0, 5), flexible_since=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(api_key=25, versions=range(0, 5), flexible_since=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
