"""AllocateProducerIds: the request and the response."""

from barnabas.protocol.schema import int16, int32, int64, message


@message(api_key=67, versions=range(0, 1), flexible_since=0)
class AllocateProducerIdsRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(api_key=67, versions=range(0, 1), flexible_since=0)
class AllocateProducerIdsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
