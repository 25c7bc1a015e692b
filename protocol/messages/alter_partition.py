"""AlterPartition: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, int64, message, struct, uuid
from barnabas.protocol.types import Uuid


@struct
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@struct
class AlterPartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: Sequence[int] = array(int32, until=2, default=())
    new_isr_with_epochs: Sequence[BrokerState] = array(BrokerState, since=3, default=())
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@struct
class AlterPartitionTopic:
    topic_id: Uuid = uuid()
    partitions: Sequence[AlterPartitionData] = array(AlterPartitionData)


@message(api_key=56, versions=range(2, 4), flexible_since=0)
class AlterPartitionRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: Sequence[AlterPartitionTopic] = array(AlterPartitionTopic)


@struct
class AlteredPartition:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)
    isr: Sequence[int] = array(int32, default=())
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32(default=0)


@struct
class AlteredTopic:
    topic_id: Uuid = uuid()
    partitions: Sequence[AlteredPartition] = array(AlteredPartition)


@message(api_key=56, versions=range(2, 4), flexible_since=0)
class AlterPartitionResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    topics: Sequence[AlteredTopic] = array(AlteredTopic, default=())
