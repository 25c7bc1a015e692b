"""ElectLeaders: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, message, string, struct


@struct
class TopicPartitions:
    topic: str = string()
    partitions: Sequence[int] = array(int32)


@message(api_key=43, versions=range(0, 3), flexible_since=2)
class ElectLeadersRequest:
    election_type: int = int8(since=1, default=0)
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable=True)
    timeout_ms: int = int32(default=60_000)


@struct
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


@struct
class ReplicaElectionResult:
    topic: str = string()
    partition_result: Sequence[PartitionResult] = array(PartitionResult)


@message(api_key=43, versions=range(0, 3), flexible_since=2)
class ElectLeadersResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=1, default=0)
    replica_election_results: Sequence[ReplicaElectionResult] = array(ReplicaElectionResult)
