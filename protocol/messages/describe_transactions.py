"""DescribeTransactions: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct


@message(api_key=65, versions=range(0, 1), flexible_since=0)
class DescribeTransactionsRequest:
    transactional_ids: Sequence[str] = array(string)


@struct
class TopicData:
    topic: str = string()
    partitions: Sequence[int] = array(int32)


@struct
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string(default="")
    transaction_timeout_ms: int = int32(default=0)
    transaction_start_time_ms: int = int64(default=0)
    producer_id: int = int64(default=0)
    producer_epoch: int = int16(default=0)
    topics: Sequence[TopicData] = array(TopicData, default=())


@message(api_key=65, versions=range(0, 1), flexible_since=0)
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32(default=0)
    transaction_states: Sequence[TransactionState] = array(TransactionState)
