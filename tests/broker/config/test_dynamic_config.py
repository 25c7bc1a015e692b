import pytest

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.stored.metadata_records import ConfigRecord
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from barnabas.replication.metadata.image_delta import MetadataDelta
from tests.fakes import FakeReport
from tests.replication.clusters import cluster, new_topic, with_topics


def altered(
    image: MetadataImage, resource_type: int, name: str, key: str, value: str | None
) -> tuple[MetadataImage, ImageChanges]:
    delta = MetadataDelta(image)
    delta.replay(ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value))
    return delta.finish()


def test_what_is_altered_for_this_broker_or_for_all_is_taken_over_and_handed_on() -> None:
    config, seen = DynamicConfig({"node.id": "1", "log.retention.ms": "5"}, FakeReport()), list[BrokerConfig]()
    config.subscribe(seen.append)
    image, changes = altered(cluster(1, 2), ResourceType.BROKER, "", "log.retention.ms", "6")
    config.on_metadata(image, changes)
    image, changes = altered(image, ResourceType.BROKER, "1", "log.retention.ms", "7")
    config.on_metadata(image, changes)
    image, changes = altered(image, ResourceType.BROKER, "2", "log.retention.ms", "8")  # another's
    config.on_metadata(image, changes)
    image, changes = altered(image, ResourceType.BROKER, "1", "log.retention.ms", None)
    config.on_metadata(image, changes)
    assert [each.log_retention_ms for each in seen] == [6, 7, 6]
    assert config.current is seen[-1]


def test_a_start_takes_over_what_the_metadata_say() -> None:
    config = DynamicConfig({"node.id": "1"}, FakeReport())
    config.load(altered(cluster(1), ResourceType.BROKER, "1", "log.retention.ms", "7")[0])
    assert config.current.log_retention_ms == 7


def test_a_topics_configuration_is_its_own_over_the_brokers() -> None:
    config = DynamicConfig({"node.id": "1", "log.retention.ms": "5", "log.flush.interval.ms": "6"}, FakeReport())
    before = config.log_config("orders")
    assert (before.retention_ms, before.flush_ms) == (-1, 6), "nothing is deleted before the metadata are there"
    config.load(with_topics(cluster(1), new_topic("orders", configs={"segment.ms": "7"})))
    orders, others = config.log_config("orders"), config.log_config("others")
    assert (orders.retention_ms, orders.segment_ms) == (5, 7)
    assert (others.retention_ms, others.segment_ms) == (5, config.current.log_defaults.segment_ms)


@pytest.mark.parametrize(
    ("resource", "key", "value"),
    [
        ("", "min.insync.replicas", "many"),  # what a controller takes that does not look at values
        ("1", "log.cleaner.threads", "many"),
        ("", "no.such.key", "1"),  # of another version
        ("", "log.cleaner.max.compaction.lag.ms", "4"),  # judged by a broker that was started without the other one
    ],
)
def test_what_this_broker_cannot_have_is_left_out_and_the_rest_is_taken(resource: str, key: str, value: str) -> None:
    report = FakeReport()
    config = DynamicConfig({"node.id": "1", "log.cleaner.min.compaction.lag.ms": "5"}, report)
    image, _ = altered(cluster(1), ResourceType.BROKER, resource, key, value)
    image, changes = altered(image, ResourceType.BROKER, resource, "log.retention.ms", "7")
    config.load(image)
    config.on_metadata(image, changes)
    assert config.current.log_retention_ms == 7
    assert config.current.log_cleaner_min_compaction_lag_ms == 5
    assert report.having(f"left out ({key})")
    assert [each.value for each in config.describer.broker(["log.retention.ms"])] == ["7"]


def test_a_topics_values_stand_although_new_defaults_do_not_go_with_them() -> None:
    config = DynamicConfig({"node.id": "1"}, FakeReport())
    stored = {"max.compaction.lag.ms": "4", "no.such.key": "1", "retention.ms": "soon", "segment.ms": "7"}
    image, _ = altered(cluster(1), ResourceType.BROKER, "", "log.cleaner.min.compaction.lag.ms", "5")
    for key, value in stored.items():
        image, _ = altered(image, ResourceType.TOPIC, "orders", key, value)
    config.load(image)
    orders = config.log_config("orders")
    assert (orders.min_compaction_lag_ms, orders.max_compaction_lag_ms, orders.segment_ms) == (5, 4, 7)
    described = config.describer.topic(stored, ["max.compaction.lag.ms", "min.compaction.lag.ms"])
    assert [each.value for each in described] == ["4", "5"]


def test_what_is_described_follows_what_is_altered() -> None:
    config = DynamicConfig({"node.id": "1"}, FakeReport())
    (before,) = config.describer.broker(["log.retention.ms"])
    config.on_metadata(*altered(cluster(1), ResourceType.BROKER, "1", "log.retention.ms", "7"))
    (after,) = config.describer.broker(["log.retention.ms"])
    assert (before.value, after.value) == (None, "7")
