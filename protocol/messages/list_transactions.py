"""ListTransactions: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct


@message(api_key=66, versions=range(0, 3), flexible_since=0)
class ListTransactionsRequest:
    state_filters: Sequence[str] = array(string)
    producer_id_filters: Sequence[int] = array(int64)
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable=True, default=None)


@struct
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(api_key=66, versions=range(0, 3), flexible_since=0)
class ListTransactionsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: Sequence[str] = array(string)
    transaction_states: Sequence[TransactionState] = array(TransactionState)
