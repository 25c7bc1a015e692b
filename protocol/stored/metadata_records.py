"""The records of `__cluster_metadata`."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, int64, message, string, struct, uint16, uuid
from barnabas.protocol.types import Uuid


@struct
class BrokerEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class BrokerFeature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=0, versions=range(0, 5), flexible_since=0)
class RegisterBrokerRecord:
    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(since=2, default=False)
    incarnation_id: Uuid = uuid()
    broker_epoch: int = int64()
    end_points: Sequence[BrokerEndpoint] = array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable=True)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(since=1, default=False)
    log_dirs: Sequence[Uuid] = array(uuid, since=3, default=(), tag=0)
    cordoned_log_dirs: Sequence[Uuid] | None = array(uuid, since=4, nullable=True, default=None, tag=1)


@message(api_key=1, versions=range(0, 1), flexible_since=0)
class UnregisterBrokerRecord:
    broker_id: int = int32()
    broker_epoch: int = int64()


@message(api_key=17, versions=range(0, 4), flexible_since=0)
class BrokerRegistrationChangeRecord:
    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(default=0, tag=0)
    in_controlled_shutdown: int = int8(since=1, default=0, tag=1)
    log_dirs: Sequence[Uuid] = array(uuid, since=2, default=(), tag=2)
    cordoned_log_dirs: Sequence[Uuid] | None = array(uuid, since=3, nullable=True, default=None, tag=3)


@message(api_key=7, versions=range(0, 1), flexible_since=0)
class FenceBrokerRecord:
    id: int = int32()
    epoch: int = int64()


@message(api_key=8, versions=range(0, 1), flexible_since=0)
class UnfenceBrokerRecord:
    id: int = int32()
    epoch: int = int64()


@message(api_key=2, versions=range(0, 1), flexible_since=0)
class TopicRecord:
    name: str = string()
    topic_id: Uuid = uuid()


@message(api_key=9, versions=range(0, 1), flexible_since=0)
class RemoveTopicRecord:
    topic_id: Uuid = uuid()


@message(api_key=3, versions=range(0, 3), flexible_since=0)
class PartitionRecord:
    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    replicas: Sequence[int] = array(int32)
    isr: Sequence[int] = array(int32)
    removing_replicas: Sequence[int] = array(int32)
    adding_replicas: Sequence[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(default=0, tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: Sequence[Uuid] = array(uuid, since=1, default=())
    eligible_leader_replicas: Sequence[int] | None = array(int32, since=2, nullable=True, default=None, tag=1)
    last_known_elr: Sequence[int] | None = array(int32, since=2, nullable=True, default=None, tag=2)


@message(api_key=5, versions=range(0, 3), flexible_since=0)
class PartitionChangeRecord:
    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    isr: Sequence[int] | None = array(int32, nullable=True, default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: Sequence[int] | None = array(int32, nullable=True, default=None, tag=2)
    removing_replicas: Sequence[int] | None = array(int32, nullable=True, default=None, tag=3)
    adding_replicas: Sequence[int] | None = array(int32, nullable=True, default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: Sequence[Uuid] | None = array(uuid, since=1, nullable=True, default=None, tag=8)
    eligible_leader_replicas: Sequence[int] | None = array(int32, since=2, nullable=True, default=None, tag=6)
    last_known_elr: Sequence[int] | None = array(int32, since=2, nullable=True, default=None, tag=7)


@message(api_key=4, versions=range(0, 1), flexible_since=0)
class ConfigRecord:
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


@message(api_key=28, versions=range(0, 1), flexible_since=0)
class ClearElrRecord:
    topic_name: str = string()


@message(api_key=15, versions=range(0, 1), flexible_since=0)
class ProducerIdsRecord:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


@message(api_key=12, versions=range(0, 1), flexible_since=0)
class FeatureLevelRecord:
    name: str = string()
    feature_level: int = int16()


@message(api_key=20, versions=range(0, 1), flexible_since=0)
class NoOpRecord:
    pass


@message(api_key=23, versions=range(0, 1), flexible_since=0)
class BeginTransactionRecord:
    name: str | None = string(nullable=True, default=None, tag=0)


@message(api_key=24, versions=range(0, 1), flexible_since=0)
class EndTransactionRecord:
    pass


@message(api_key=25, versions=range(0, 1), flexible_since=0)
class AbortTransactionRecord:
    reason: str | None = string(nullable=True, default=None, tag=0)


@struct
class ControllerEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class ControllerFeature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=27, versions=range(0, 1), flexible_since=0)
class RegisterControllerRecord:
    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = boolean()
    end_points: Sequence[ControllerEndpoint] = array(ControllerEndpoint)
    features: Sequence[ControllerFeature] = array(ControllerFeature)
