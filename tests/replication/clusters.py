"""Small clusters to decide on."""

from collections.abc import Mapping
from random import Random
from typing import Any

from barnabas.base.config_def import Config, UpdateMode, at_least, int32, string_list
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreateTopicsRequest,
)
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord, FeatureLevelRecord
from barnabas.replication.controller.brokers.fencing import unfence_records
from barnabas.replication.controller.channel import own_context
from barnabas.replication.controller.cluster_control import ELR_VERSION, SUPPORTED_FEATURES, first_records
from barnabas.replication.controller.controller import Controller
from barnabas.replication.controller.decision import Decision
from barnabas.replication.controller.settings import ConfigSchemas, ControllerSettings, TopicDefaults
from barnabas.replication.metadata.image import MetadataImage, PartitionImage, TopicImage, empty_image
from barnabas.replication.metadata.image_delta import replayed
from barnabas.storage.log_config import LogConfig

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DEFAULTS = TopicDefaults()


class SmallBrokerConfig(Config):
    """A key of each kind that matters to a decision."""

    SCOPE = "broker"

    num_io_threads: int = int32("num.io.threads", 8, "x", update_mode=UpdateMode.CLUSTER_WIDE)
    log_cleaner_backoff: int = int32("log.cleaner.backoff", 8, "x", update_mode=UpdateMode.PER_BROKER)
    log_cleanup_policy: tuple[str, ...] = string_list(
        "log.cleanup.policy", ("delete",), "x", update_mode=UpdateMode.CLUSTER_WIDE
    )
    min_insync_replicas: int = int32("min.insync.replicas", 1, "x", update_mode=UpdateMode.CLUSTER_WIDE)
    node_id: int = int32("node.id", 1, "x")


class SmallGroupConfig(Config):
    SCOPE = "group"

    consumer_session_timeout_ms: int = int32("consumer.session.timeout.ms", 45_000, at_least(1), "x")


def registration(broker_id: int = 1, **changes: object) -> BrokerRegistrationRequest:
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=uuid(100 + broker_id),
        listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092 + broker_id, security_protocol=0)],
        features=features(SUPPORTED_FEATURES),
        rack=None,
        log_dirs=(uuid(200 + broker_id),),
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def features(levels: Mapping[str, tuple[int, int]]) -> list[Feature]:
    return [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in levels.items()
    ]


def uuid(number: int) -> bytes:
    return b"\x01" + number.to_bytes(15, "big")


def cluster(
    *broker_ids: int, fenced: tuple[int, ...] = (), stopping: tuple[int, ...] = (), elr: bool = True
) -> MetadataImage:
    """Active brokers, except for those that are `fenced` or in controlled shutdown (`stopping`)."""
    image = replayed(empty_image(CLUSTER_ID), first_records(1))
    image = replayed(image, [FeatureLevelRecord(name=ELR_VERSION, feature_level=int(elr))])
    for broker_id in broker_ids:
        records, response = decided(registration(broker_id), image)
        epoch = response.broker_epoch
        image = replayed(image, records)._replace(end_offset=image.end_offset + len(records))
        if broker_id not in fenced:
            image = replayed(image, unfence_records(broker_id, image, controller().settings))
        if broker_id in stopping:
            stop = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, in_controlled_shutdown=1)
            image = replayed(image, [stop])
    return image


def plain_configs(configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """A topic's values over the defaults, the internal ones only where the topic sets them."""
    effective = LogConfig().with_overrides(configs)
    return [
        CreatableTopicConfigs(
            name=name, value=effective.as_text(name), config_source=1 if name in configs else 5, is_sensitive=False
        )
        for name, key in sorted(effective.KEYS.items())
        if not key.internal or name in configs
    ]


def controller(*, defaults: TopicDefaults = DEFAULTS, delete_topic_enable: bool = True, **settings: Any) -> Controller:
    schemas = ConfigSchemas(topic=LogConfig(), broker=SmallBrokerConfig(), group=SmallGroupConfig)
    return Controller(ControllerSettings(schemas, plain_configs, defaults, delete_topic_enable, **settings), Random(7))


def decided(request: Any, image: MetadataImage, **options: Any) -> Decision[Any]:
    """What a controller decides that has just become active, with no session of any broker."""
    return controller(**options).decide(request, own_context(request), image, now_ms=0)


def new_topic(
    name: str,
    num_partitions: int = 1,
    replication_factor: int = 1,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, dict) else assignments or ()
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in pairs],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def with_topics(image: MetadataImage, *topics: CreatableTopic | str) -> MetadataImage:
    creatable = [new_topic(topic) if isinstance(topic, str) else topic for topic in topics]
    decision = decided(CreateTopicsRequest(topics=creatable), image)
    assert not any(result.error_code for result in decision.response.topics), decision.response
    return replayed(image, decision.records)


def topic_of(image: MetadataImage, name: str) -> TopicImage:
    """One that must be there."""
    topic = image.topic(name)
    assert topic is not None, name
    return topic


def partition_of(image: MetadataImage, topic: str, partition: int) -> PartitionImage:
    """One that must be there."""
    found = image.partition(topic, partition)
    assert found is not None, (topic, partition)
    return found
