"""The records of `__transaction_state`: the key of each, and its value."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, int64, message, string, struct


@message(api_key=0, versions=range(0, 1))
class TransactionLogKey:
    transactional_id: str = string()


@struct
class PartitionsSchema:
    topic: str = string()
    partition_ids: Sequence[int] = array(int32)


@message(api_key=0, versions=range(0, 2), flexible_since=1)
class TransactionLogValue:
    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, default=-1, tag=0)
    next_producer_id: int = int64(since=1, default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(since=1, default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: Sequence[PartitionsSchema] | None = array(PartitionsSchema, nullable=True)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, default=0, tag=2)
