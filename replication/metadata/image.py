"""The cluster's metadata at one offset of `__cluster_metadata`: what every handler reads.

Rules:
- An image never changes. `MetadataDelta` replays records on top of one and builds another; what a record does not touch
  is shared between the two, so one change costs the same among ten partitions and ten thousand.
- Replay is the only way in: the live broker, a restart and a snapshot reach the same image by the same records.
- The image holds what the records say and which offsets they came from, and the leader of the quorum, which the control
  records of the log name. The cluster id is not in the log: it is handed in.
- A record that does not fit the image (a partition of an unknown topic) is a bug or a damaged log: an assertion.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_records import PartitionRecord, RegisterBrokerRecord, RegisterControllerRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.persistent_map import PersistentMap

K = TypeVar("K")

NO_LEADER = -1
METADATA_VERSION = "metadata.version"
GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_VERSION = "transaction.version"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})
CLUSTER_METADATA_TOPIC = "__cluster_metadata"


class ConfigResource(NamedTuple):
    type: int
    name: str
    """The empty name stands for the defaults of all brokers."""


class PartitionImage(NamedTuple):
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    directories: tuple[Uuid, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    name: str
    topic_id: Uuid
    partitions: tuple[PartitionImage, ...]
    """Partition ids are the indexes."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


class Endpoint(NamedTuple):
    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    """The endpoints by listener name."""
    features: Mapping[str, tuple[int, int]]
    """The lowest and the highest version of each feature that the broker supports."""
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


class ControllerImage(NamedTuple):
    controller_id: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    """The endpoints by listener name."""
    features: Mapping[str, tuple[int, int]]
    """The lowest and the highest version of each feature that the controller supports."""


class ProducerIdsImage(NamedTuple):
    broker_id: int = -1
    broker_epoch: int = -1
    next_producer_id: int = 0


class MetadataImage(NamedTuple):
    cluster_id: str
    end_offset: int
    """The offset after the last record in it."""
    epoch: int
    """The leader epoch of that record."""
    timestamp_ms: int
    """The time at which that record was appended."""
    controller_id: int
    """The leader of the quorum; -1 while there is none."""
    topics: PersistentMap[str, TopicImage]
    topics_by_id: PersistentMap[Uuid, TopicImage]
    topics_by_metric_name: PersistentMap[str, tuple[str, ...]]
    """The names with a `.` or a `_`, by their name in a metric, where the two characters are the same."""
    brokers: Mapping[int, BrokerImage]
    controllers: Mapping[int, ControllerImage]
    """The controllers that have registered: each does at its start. There is no record that removes one."""
    configs: PersistentMap[ConfigResource, Mapping[str, str]]
    features: Mapping[str, int]
    producer_ids: ProducerIdsImage

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        return self.topics_by_id.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.topics.get(topic)
        return image.partitions[partition] if image and 0 <= partition < len(image.partitions) else None

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Returns what was set for this resource itself, as text."""
        return self.configs.get(ConfigResource(resource_type, name), NO_CONFIGS)

    @property
    def active_brokers(self) -> Sequence[BrokerImage]:
        return [broker for _, broker in sorted(self.brokers.items()) if broker.is_active]


NO_CONFIGS: Mapping[str, str] = {}


def empty_image(cluster_id: str) -> MetadataImage:
    return MetadataImage(
        cluster_id=cluster_id,
        end_offset=0,
        epoch=0,
        timestamp_ms=0,
        controller_id=-1,
        topics=PersistentMap(),
        topics_by_id=PersistentMap(),
        topics_by_metric_name=PersistentMap(),
        brokers={},
        controllers={},
        configs=PersistentMap(),
        features={},
        producer_ids=ProducerIdsImage(),
    )


class TopicChange(NamedTuple):
    """A topic before and after: one side is None if it was created or deleted."""

    before: TopicImage | None
    after: TopicImage | None

    def changed_partitions(self) -> Iterable[int]:
        """Returns the partitions of `after` that are new or not as they were."""
        before = self.before.partitions if self.before else ()
        after = self.after.partitions if self.after else ()
        return [index for index, partition in enumerate(after) if index >= len(before) or before[index] != partition]


class ImageChanges(NamedTuple):
    """The differences between two images: enough to apply the second without looking at all of it."""

    topics: tuple[TopicChange, ...] = ()
    """Deletions first, so that a name that was deleted and created again is free when its turn comes."""
    configs: tuple[ConfigResource, ...] = ()
    brokers: tuple[int, ...] = ()
    features: tuple[str, ...] = ()
    controllers: tuple[int, ...] = ()

    @property
    def created_topics(self) -> list[TopicImage]:
        return [after for before, after in self.topics if before is None and after is not None]

    @property
    def changed_topics(self) -> list[TopicChange]:
        return [change for change in self.topics if change.before is not None and change.after is not None]

    @property
    def deleted_topics(self) -> list[TopicImage]:
        return [before for before, after in self.topics if before is not None and after is None]


def changes_between(before: MetadataImage, after: MetadataImage) -> ImageChanges:
    """Returns the differences between two images of which the second came from a snapshot, and not record by record."""
    old, new = before.topics_by_id, after.topics_by_id
    deleted = [TopicChange(topic, None) for topic_id, topic in old.items() if topic_id not in new]
    created = [TopicChange(None, topic) for topic_id, topic in new.items() if topic_id not in old]
    both = [(old[topic_id], topic) for topic_id, topic in new.items() if topic_id in old]
    changed = [TopicChange(*pair) for pair in both if pair[0] != pair[1]]
    return ImageChanges(
        topics=(*deleted, *created, *changed),
        configs=_differing(before.configs, after.configs),
        brokers=_differing(before.brokers, after.brokers),
        features=_differing(before.features, after.features),
        controllers=_differing(before.controllers, after.controllers),
    )


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> tuple[K, ...]:
    return tuple(key for key in {**before, **after} if before.get(key) != after.get(key))


def metric_name(topic: str) -> str:
    return topic.replace(".", "_")


def partition_image_of(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        leader_recovery_state=record.leader_recovery_state,
        directories=tuple(record.directories),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


def broker_image_of(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints_of(record),
        features=_features_of(record),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
    )


def controller_image_of(record: RegisterControllerRecord) -> ControllerImage:
    return ControllerImage(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints_of(record),
        features=_features_of(record),
    )


def _endpoints_of(record: RegisterBrokerRecord | RegisterControllerRecord) -> Mapping[str, Endpoint]:
    return {end.name: Endpoint(end.host, end.port, end.security_protocol) for end in record.end_points}


def _features_of(record: RegisterBrokerRecord | RegisterControllerRecord) -> Mapping[str, tuple[int, int]]:
    return {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in record.features}
