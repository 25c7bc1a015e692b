"""WriteTxnMarkers: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, int64, message, string, struct


@struct
class WritableTxnMarkerTopic:
    name: str = string()
    partition_indexes: Sequence[int] = array(int32)


@struct
class WritableTxnMarker:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: Sequence[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2, default=0)


@message(api_key=27, versions=range(1, 3), flexible_since=1)
class WriteTxnMarkersRequest:
    markers: Sequence[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class WritableTxnMarkerTopicResult:
    name: str = string()
    partitions: Sequence[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult:
    producer_id: int = int64()
    topics: Sequence[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(api_key=27, versions=range(1, 3), flexible_since=1)
class WriteTxnMarkersResponse:
    markers: Sequence[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
