"""AddPartitionsToTxn: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, string, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: Sequence[int] = array(int32)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean(default=False)
    topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@message(api_key=24, versions=range(0, 6), flexible_since=3)
class AddPartitionsToTxnRequest:
    transactions: Sequence[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, since=4, default=())
    v3_and_below_transactional_id: str = string(until=3, default="")
    v3_and_below_producer_id: int = int64(until=3, default=0)
    v3_and_below_producer_epoch: int = int16(until=3, default=0)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3, default=())


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = string()
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@message(api_key=24, versions=range(0, 6), flexible_since=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=4, default=0)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, since=4, default=())
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, until=3, default=()
    )
