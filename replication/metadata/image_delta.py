"""Replay: records on top of an image make the next image, and the list of what changed on the way.

A delta gathers what its records touch in plain mutable maps and builds the immutable parts once, in `finish`. A topic
of ten thousand partitions that arrives in ten thousand records is therefore built once, not ten thousand times.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import (
    BrokerImage,
    ConfigResource,
    ControllerImage,
    ImageChanges,
    MetadataImage,
    PartitionImage,
    ProducerIdsImage,
    TopicChange,
    TopicImage,
    broker_image_of,
    controller_image_of,
    metric_name,
    partition_image_of,
)

N = TypeVar("N")

NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1


class _Topic:
    """A topic while records change it."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, partitions: Iterable[PartitionImage]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = list(partitions)

    def image(self) -> TopicImage:
        return TopicImage(self.name, self.topic_id, tuple(self.partitions))


class MetadataDelta:
    __slots__ = (
        "_brokers",
        "_configs",
        "_controllers",
        "_features",
        "_ids_by_name",
        "_topics",
        "image",
        "producer_ids",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.producer_ids: ProducerIdsImage = image.producer_ids
        self._topics: dict[Uuid, _Topic | None] = {}
        self._ids_by_name: dict[str, Uuid | None] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage | None] = {}
        self._controllers: dict[int, ControllerImage] = {}
        self._features: dict[str, int] = {}

    def replay(self, record: MetadataRecord) -> None:
        replay = _REPLAY.get(type(record))
        assert replay is not None, f"{type(record).__name__} cannot be replayed"
        replay(self, record)

    # ---- topics

    def _topic(self, topic_id: Uuid) -> _Topic:
        if topic_id not in self._topics and (image := self.image.topics_by_id.get(topic_id)) is not None:
            self._topics[topic_id] = _Topic(*image)
        topic = self._topics.get(topic_id)
        assert topic is not None, f"there is no topic {topic_id.hex()}"
        return topic

    def _replay_topic(self, record: TopicRecord) -> None:
        self._topics[record.topic_id] = _Topic(record.name, record.topic_id, ())
        self._ids_by_name[record.name] = record.topic_id

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        """Removes the topic and its configs, for which there are no records of their own."""
        name = self._topic(record.topic_id).name
        self._topics[record.topic_id] = None
        self._ids_by_name[name] = None
        resource = ConfigResource(ResourceType.TOPIC, name)
        if resource in self._configs or resource in self.image.configs:
            self._configs[resource] = {}

    def _replay_partition(self, record: PartitionRecord) -> None:
        partitions = self._topic(record.topic_id).partitions
        assert record.partition_id <= len(partitions), f"partition {record.partition_id} comes before the one below it"
        partitions[record.partition_id : record.partition_id + 1] = [partition_image_of(record)]

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self._topic(record.topic_id).partitions
        partitions[record.partition_id] = merged(partitions[record.partition_id], record)

    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Leaves no replica eligible to lead without being in sync: of one topic, or of all if none is named."""
        if record.topic_name:
            topics = [self._topic_id(record.topic_name)]
        else:
            unchanged = (topic_id for topic_id in self.image.topics_by_id if topic_id not in self._topics)
            topics = [*(topic_id for topic_id, topic in self._topics.items() if topic is not None), *unchanged]
        for topic_id in topics:
            partitions = self._partitions(topic_id)
            for index, partition in enumerate(partitions):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    self._topic(topic_id).partitions[index] = partition._replace(
                        eligible_leader_replicas=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )

    def _topic_id(self, name: str) -> Uuid:
        image = self.image.topics.get(name)
        topic_id = self._ids_by_name.get(name, image.topic_id if image is not None else None)
        assert topic_id is not None, f"there is no topic {name}"
        return topic_id

    def _partitions(self, topic_id: Uuid) -> Iterable[PartitionImage]:
        """Returns the partitions of a topic as they are now. Who only looks at them does not change the topic."""
        topic = self._topics.get(topic_id)
        return self.image.topics_by_id[topic_id].partitions if topic is None else tuple(topic.partitions)

    # ---- everything else

    def _replay_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        if resource not in self._configs:
            self._configs[resource] = dict(self.image.configs.get(resource, {}))
        if record.value is None:
            self._configs[resource].pop(record.name, None)
        else:
            self._configs[resource][record.name] = record.value

    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = broker_image_of(record)

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = None

    def _replay_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=record.in_controlled_shutdown > 0)
        if record.log_dirs:
            broker = broker._replace(log_dirs=tuple(record.log_dirs))
        self._brokers[record.broker_id] = broker

    def _replay_fence(self, record: FenceBrokerRecord) -> None:
        self._brokers[record.id] = self._broker(record.id, record.epoch)._replace(fenced=True)

    def _replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        self._brokers[record.id] = self._broker(record.id, record.epoch)._replace(fenced=False)

    def _broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self._brokers[broker_id] if broker_id in self._brokers else self.image.brokers.get(broker_id)
        assert broker is not None, f"broker {broker_id} is not registered"
        assert broker.broker_epoch == broker_epoch, f"broker {broker_id} has epoch {broker.broker_epoch}"
        return broker

    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self._controllers[record.controller_id] = controller_image_of(record)

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        assert record.next_producer_id >= self.producer_ids.next_producer_id, "producer ids would be given out twice"
        self.producer_ids = ProducerIdsImage(record.broker_id, record.broker_epoch, record.next_producer_id)

    def _replay_nothing(self, record: MetadataRecord) -> None:
        """Ignores a record that means nothing to the image."""

    # ---- the result

    def finish(
        self,
        *,
        end_offset: int | None = None,
        epoch: int | None = None,
        timestamp_ms: int | None = None,
        controller_id: int | None = None,
    ) -> tuple[MetadataImage, ImageChanges]:
        """Returns the next image and what changed; what is not given stays as it was."""
        image = self.image
        by_id = {topic_id: topic.image() if topic else None for topic_id, topic in self._topics.items()}
        topics = self._topic_changes(by_id)
        by_name = {name: by_id[topic_id] if topic_id else None for name, topic_id in self._ids_by_name.items()}
        by_name |= {topic.name: topic for topic in by_id.values() if topic is not None}
        changes = ImageChanges(
            topics, tuple(self._configs), tuple(self._brokers), tuple(self._features), tuple(self._controllers)
        )
        return MetadataImage(
            cluster_id=image.cluster_id,
            end_offset=image.end_offset if end_offset is None else end_offset,
            epoch=image.epoch if epoch is None else epoch,
            timestamp_ms=image.timestamp_ms if timestamp_ms is None else timestamp_ms,
            controller_id=image.controller_id if controller_id is None else controller_id,
            topics=image.topics.updated(by_name),
            topics_by_id=image.topics_by_id.updated(by_id),
            topics_by_metric_name=image.topics_by_metric_name.updated(self._metric_names()),
            brokers=_updated(image.brokers, self._brokers),
            controllers=_updated(image.controllers, self._controllers),
            configs=image.configs.updated({resource: configs or None for resource, configs in self._configs.items()}),
            features={name: level for name, level in (dict(image.features) | self._features).items() if level},
            producer_ids=self.producer_ids,
        ), changes

    def _topic_changes(self, by_id: dict[Uuid, TopicImage | None]) -> tuple[TopicChange, ...]:
        changes = [TopicChange(self.image.topics_by_id.get(topic_id), topic) for topic_id, topic in by_id.items()]
        changes = [change for change in changes if change.before is not None or change.after is not None]
        return tuple(sorted(changes, key=lambda change: change.after is not None))

    def _metric_names(self) -> dict[str, tuple[str, ...] | None]:
        """Returns only the names that came or went: a topic that merely changed keeps its place."""
        sets: dict[str, set[str]] = {}
        for name, topic_id in self._ids_by_name.items():
            key = metric_name(name)
            if "_" not in key:
                continue
            names = sets.setdefault(key, set(self.image.topics_by_metric_name.get(key, ())))
            names.discard(name) if topic_id is None else names.add(name)
        return {key: tuple(sorted(names)) or None for key, names in sets.items()}


def _updated(nodes: Mapping[int, N], changes: Mapping[int, N] | Mapping[int, N | None]) -> Mapping[int, N]:
    if not changes:
        return nodes
    merged: dict[int, N | None] = {**nodes, **changes}
    return {node_id: node for node_id in sorted(merged) if (node := merged[node_id]) is not None}


def merged(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Returns the partition after a change. A leader that is named starts a new leader epoch, even if it led before."""
    changes: dict[str, Any] = {"partition_epoch": partition.partition_epoch + 1}
    for name in _ARRAYS:
        if (value := getattr(record, name)) is not None:
            changes[name] = tuple(value)
    if record.leader != NO_LEADER_CHANGE:
        changes["leader"] = record.leader
        changes["leader_epoch"] = partition.leader_epoch + 1
    if record.leader_recovery_state != NO_RECOVERY_STATE_CHANGE:
        changes["leader_recovery_state"] = record.leader_recovery_state
    return partition._replace(**changes)


_ARRAYS = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)

_REPLAY: dict[type, Callable[[MetadataDelta, Any], None]] = {
    BrokerRegistrationChangeRecord: MetadataDelta._replay_broker_change,
    ClearElrRecord: MetadataDelta._replay_clear_elr,
    ConfigRecord: MetadataDelta._replay_config,
    FeatureLevelRecord: MetadataDelta._replay_feature_level,
    FenceBrokerRecord: MetadataDelta._replay_fence,
    NoOpRecord: MetadataDelta._replay_nothing,
    PartitionChangeRecord: MetadataDelta._replay_partition_change,
    PartitionRecord: MetadataDelta._replay_partition,
    ProducerIdsRecord: MetadataDelta._replay_producer_ids,
    RegisterBrokerRecord: MetadataDelta._replay_register_broker,
    RegisterControllerRecord: MetadataDelta._replay_register_controller,
    RemoveTopicRecord: MetadataDelta._replay_remove_topic,
    TopicRecord: MetadataDelta._replay_topic,
    UnfenceBrokerRecord: MetadataDelta._replay_unfence,
    UnregisterBrokerRecord: MetadataDelta._replay_unregister_broker,
}


def replayed(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """Returns the image after `records`, at the same offset: what a decision would lead to."""
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.finish()[0]
