"""Small clusters to decide on."""

from random import Random

from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.metadata_records import BrokerRegistrationChangeRecord
from barnabas.replication.cluster_control import BrokerRegistration, bootstrap_records, register_broker, unfence_broker
from barnabas.replication.controller import Controller, ControllerSettings
from barnabas.replication.image import Endpoint, MetadataImage, empty_image
from barnabas.replication.image_delta import replayed
from barnabas.replication.topic_control import TopicDefaults
from barnabas.storage.config_def import Config, UpdateMode, at_least, int32, string_list
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
    node_id: int = int32("node.id", 1, "x")


class SmallGroupConfig(Config):
    SCOPE = "group"

    consumer_session_timeout_ms: int = int32("consumer.session.timeout.ms", 45_000, at_least(1), "x")


def registration(broker_id: int = 1, **changes: object) -> BrokerRegistration:
    endpoints = {"PLAINTEXT": Endpoint("localhost", 9092 + broker_id, 0)}
    base = BrokerRegistration(broker_id, CLUSTER_ID, uuid(100 + broker_id), endpoints, (uuid(200 + broker_id),))
    return base._replace(**changes)  # type: ignore[arg-type]


def uuid(number: int) -> bytes:
    return b"\x01" + number.to_bytes(15, "big")


def cluster(*broker_ids: int, fenced: tuple[int, ...] = (), stopping: tuple[int, ...] = ()) -> MetadataImage:
    """Active brokers, except for those that are `fenced` or in controlled shutdown (`stopping`)."""
    image = replayed(empty_image(CLUSTER_ID), bootstrap_records())
    for broker_id in broker_ids:
        records, epoch = register_broker(registration(broker_id), image)
        image = replayed(image, records)._replace(end_offset=image.end_offset + len(records))
        if broker_id not in fenced:
            image = replayed(image, unfence_broker(broker_id, epoch, image).records)
        if broker_id in stopping:
            stop = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, in_controlled_shutdown=1)
            image = replayed(image, [stop])
    return image


def controller(*, defaults: TopicDefaults = DEFAULTS, delete_topic_enable: bool = True) -> Controller:
    settings = ControllerSettings(1, SmallBrokerConfig(), LogConfig(), SmallGroupConfig, defaults, delete_topic_enable)
    return Controller(settings, random=Random(7))


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
    decision = controller().create_topics(CreateTopicsRequest(topics=creatable), image)
    assert not any(result.error_code for result in decision.response.topics), decision.response
    return replayed(image, decision.records)
