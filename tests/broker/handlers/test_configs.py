"""The configuration APIs, DescribeLogDirs, and what a change of a topic or a broker does at once."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterableConfig as Replacement
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.testing import Broker
from tests.broker.wire import RawClient, batch_of, good, now_ms, records_of

NONE = ErrorCode.NONE
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC_SOURCE, NODE_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE, GROUP_SOURCE = 1, 2, 3, 4, 5, 8
HOUR_MS = 3_600_000


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = f"configs-{abs(hash(request.node.name))}"
    broker.create_topics({name: 1})
    return name


def describe(
    client: RawClient, resource_type: int, name: str, keys: list[str] | None = None, *, version: int = 4, **options: Any
) -> dict[str, Any]:
    asked = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    [result] = client.call(DescribeConfigsRequest(resources=[asked], **options), version).results
    assert (ErrorCode(result.error_code), result.resource_type, result.resource_name) == (NONE, resource_type, name)
    return {config.name: config for config in result.configs}


def describe_error(client: RawClient, resource_type: int, name: str) -> ErrorCode:
    asked = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
    [result] = client.call(DescribeConfigsRequest(resources=[asked])).results
    return ErrorCode(result.error_code)


def value(client: RawClient, topic: str, key: str) -> tuple[str | None, int]:
    config = describe(client, TOPIC, topic, [key])[key]
    return config.value, config.config_source


Change = tuple[str, int, str | None]


def alter(
    client: RawClient, resource_type: int, name: str, *changes: Change, version: int = 1, validate_only: bool = False
) -> ErrorCode:
    configs = [AlterableConfig(name=key, config_operation=operation, value=new) for key, operation, new in changes]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    [answer] = client.call(request, version).responses
    assert (answer.error_code == NONE) == (not answer.error_message)
    return ErrorCode(answer.error_code)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        Event().wait(0.01)


# ---- DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_a_topic(broker: Broker, client: RawClient, version: int) -> None:
    broker.create_topics({f"described-v{version}": 1}, {"retention.ms": "5000"})
    configs = describe(client, TOPIC, f"described-v{version}", version=version, include_synonyms=True)
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("5000", TOPIC_SOURCE, False)
    assert not retention.is_sensitive
    strongest = retention.synonyms[0]
    assert (strongest.name, strongest.value, strongest.source) == ("retention.ms", "5000", TOPIC_SOURCE)
    policy = configs["cleanup.policy"]
    assert (policy.value, policy.config_source) == ("delete", DEFAULT_SOURCE)
    assert (retention.config_type, policy.config_type) == ((5, 7) if version >= 3 else (0, 0))
    assert len(configs) > 25


def test_only_the_keys_that_were_asked_for_come(client: RawClient) -> None:
    configs = describe(client, TOPIC, "payments", ["retention.ms", "segment.bytes", "no.such.key"])
    assert set(configs) == {"retention.ms", "segment.bytes"}


def test_documentation_and_synonyms_come_when_asked_for(client: RawClient) -> None:
    plain = describe(client, TOPIC, "payments", ["retention.ms"])["retention.ms"]
    assert (list(plain.synonyms), plain.documentation) == ([], None)
    full = describe(client, TOPIC, "payments", ["retention.ms"], include_synonyms=True, include_documentation=True)
    assert len(full["retention.ms"].documentation) > 20


def test_a_broker_describes_itself(broker: Broker, client: RawClient) -> None:
    configs = describe(client, BROKER, "1")
    assert (configs["node.id"].read_only, configs["node.id"].value) == (True, "1")
    assert not configs["message.max.bytes"].read_only
    assert len(configs) > 50


@pytest.mark.parametrize(
    ("resource_type", "name", "expected"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),  # another broker describes itself
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(client: RawClient, resource_type: int, name: str, expected: ErrorCode) -> None:
    assert describe_error(client, resource_type, name) is expected


# ---- changing configs


@pytest.mark.parametrize("version", range(0, 2))
def test_every_version_of_incremental_alter_configs_sets_and_deletes(
    client: RawClient, topic: str, version: int
) -> None:
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "7000"), version=version) == NONE
    assert value(client, topic, "retention.ms") == ("7000", TOPIC_SOURCE)
    assert alter(client, TOPIC, topic, ("segment.ms", SET, "8000"), version=version) == NONE
    assert value(client, topic, "retention.ms") == ("7000", TOPIC_SOURCE), "the others stay"
    assert alter(client, TOPIC, topic, ("retention.ms", DELETE, None), version=version) == NONE
    assert value(client, topic, "retention.ms") == ("604800000", DEFAULT_SOURCE)
    assert value(client, topic, "segment.ms") == ("8000", TOPIC_SOURCE)


def test_lists_can_be_added_to_and_taken_from(client: RawClient, topic: str) -> None:
    assert alter(client, TOPIC, topic, ("cleanup.policy", APPEND, "compact")) == NONE
    assert value(client, topic, "cleanup.policy")[0] == "delete,compact"
    assert alter(client, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")) == NONE
    assert value(client, topic, "cleanup.policy")[0] == "compact"


@pytest.mark.parametrize("version", range(0, 3))
def test_every_version_of_alter_configs_replaces_everything(client: RawClient, topic: str, version: int) -> None:
    alter(client, TOPIC, topic, ("retention.ms", SET, "7000"), ("segment.ms", SET, "8000"))
    resource = ReplacedResource(
        resource_type=TOPIC, resource_name=topic, configs=[Replacement(name="segment.ms", value="9000")]
    )
    [answer] = client.call(AlterConfigsRequest(resources=[resource], validate_only=False), version).responses
    assert answer.error_code == NONE
    assert value(client, topic, "segment.ms") == ("9000", TOPIC_SOURCE)
    assert value(client, topic, "retention.ms") == ("604800000", DEFAULT_SOURCE), "what was not named is gone"


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("own", ("retention.mss", SET, "1"), ErrorCode.INVALID_CONFIG),  # an unknown key
        ("own", ("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        ("own", ("segment.bytes", SET, "1"), ErrorCode.INVALID_CONFIG),
        ("own", ("cleanup.policy", SET, "burn"), ErrorCode.INVALID_CONFIG),
        ("own", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        ("own", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),  # no list
        ("own", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        ("no-such-topic", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(
    client: RawClient, topic: str, name: str, change: Change, expected: ErrorCode
) -> None:
    before = {name: config.value for name, config in describe(client, TOPIC, topic).items()}
    assert alter(client, TOPIC, topic if name == "own" else name, change) is expected
    assert {name: config.value for name, config in describe(client, TOPIC, topic).items()} == before


def test_a_request_is_taken_as_a_whole_or_not_at_all_for_each_resource(client: RawClient, topic: str) -> None:
    changes: list[Change] = [("retention.ms", SET, "7000"), ("segment.bytes", SET, "1")]
    assert alter(client, TOPIC, topic, *changes) is ErrorCode.INVALID_CONFIG
    assert value(client, topic, "retention.ms")[1] == DEFAULT_SOURCE


def test_validating_changes_nothing(client: RawClient, topic: str) -> None:
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "7000"), validate_only=True) == NONE
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True) is ErrorCode.INVALID_CONFIG
    assert value(client, topic, "retention.ms")[1] == DEFAULT_SOURCE


def test_the_same_key_twice_is_refused(client: RawClient, topic: str) -> None:
    changes: list[Change] = [("retention.ms", SET, "7000"), ("retention.ms", SET, "8000")]
    assert alter(client, TOPIC, topic, *changes) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["1", ""])
def test_a_broker_is_changed_at_run_time_where_kafka_allows_it(name: str) -> None:
    with Broker({"orders": 1}) as broker, RawClient(broker.port) as client:
        assert alter(client, BROKER, name, ("message.max.bytes", SET, "500")) == NONE
        source = NODE_SOURCE if name else CLUSTER_SOURCE
        described = describe(client, BROKER, "1", ["message.max.bytes"])["message.max.bytes"]
        assert (described.value, described.config_source) == ("500", source)
        assert value(client, "orders", "max.message.bytes") == ("500", source)
        assert client.produce("orders", batch_of([bytes(600)])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(client, BROKER, name, ("message.max.bytes", DELETE, None)) == NONE
        assert client.produce("orders", batch_of([bytes(600)])).error_code == NONE


@pytest.mark.parametrize(
    "change",
    [
        ("node.id", SET, "2"),
        ("log.dirs", SET, "elsewhere"),
        ("no.such.key", SET, "1"),
        ("message.max.bytes", SET, "many"),
    ],
)
def test_a_broker_is_not_changed_where_that_needs_a_restart_or_makes_no_sense(
    client: RawClient, change: Change
) -> None:
    before = {name: config.value for name, config in describe(client, BROKER, "1").items()}
    assert alter(client, BROKER, "1", change) in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
    assert {name: config.value for name, config in describe(client, BROKER, "1").items()} == before


# ---- what a change does, at once and without a restart


def test_a_shorter_retention_deletes_what_is_older(tmp_path: Path) -> None:
    config = {"log.retention.check.interval.ms": "20"}
    with Broker({"orders": 1}, config, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        client.produce("orders", good(timestamps=[now_ms() - HOUR_MS] * 3))
        assert alter(client, TOPIC, "orders", ("retention.ms", SET, "60000")) == NONE
        eventually(lambda: client.list_offset("orders", -2).offset == 3)
        assert client.produce("orders", good()).base_offset == 3
        assert client.fetch("orders", 3).log_start_offset == 3


def test_a_longer_retention_keeps_what_would_have_gone() -> None:
    config = {"log.retention.check.interval.ms": "20", "log.retention.ms": "60000"}
    with Broker(config=config) as broker, RawClient(broker.port) as client:
        broker.create_topics({"kept": 1}, {"retention.ms": str(10 * HOUR_MS)})
        broker.create_topics({"gone": 1})
        for topic in ("kept", "gone"):
            client.produce(topic, good(timestamps=[now_ms() - HOUR_MS] * 3))
        eventually(lambda: client.list_offset("gone", -2).offset == 3)
        assert client.list_offset("kept", -2).offset == 0


def test_a_smaller_max_message_bytes_holds_from_the_next_batch_on(client: RawClient, topic: str) -> None:
    assert client.produce(topic, batch_of([bytes(2_000)])).error_code == NONE
    alter(client, TOPIC, topic, ("max.message.bytes", SET, "1000"))
    assert client.produce(topic, batch_of([bytes(2_000)])).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_topic_that_becomes_compacted_takes_no_more_null_keys(client: RawClient, topic: str) -> None:
    assert client.produce(topic, good()).error_code == NONE
    alter(client, TOPIC, topic, ("cleanup.policy", SET, "compact"))
    assert client.produce(topic, good()).error_code == ErrorCode.INVALID_RECORD


def test_the_timestamp_type_can_be_changed(client: RawClient, topic: str) -> None:
    alter(client, TOPIC, topic, ("message.timestamp.type", SET, "LogAppendTime"))
    answer = client.produce(topic, good(timestamps=[5, 6, 7]))
    assert abs(answer.log_append_time_ms - now_ms()) < 60_000
    assert {record.timestamp for record in records_of(client.fetch(topic))} == {answer.log_append_time_ms}


def test_durability_can_be_changed(client: RawClient, topic: str) -> None:
    for flush_messages in ("1", "5", "9223372036854775807", "1"):
        alter(client, TOPIC, topic, ("flush.messages", SET, flush_messages))
        for _ in range(3):
            answer = client.produce(topic, good())
            assert answer.error_code == NONE
            assert len(records_of(client.fetch(topic, answer.base_offset))) == 3, "what is acknowledged can be read"


def test_changes_are_there_after_a_restart(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        alter(client, TOPIC, "orders", ("max.message.bytes", SET, "1000"))
        alter(client, BROKER, "", ("log.retention.ms", SET, "123456"))
    for _ in range(2):
        with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
            assert value(client, "orders", "max.message.bytes") == ("1000", TOPIC_SOURCE)
            assert value(client, "orders", "retention.ms") == ("123456", CLUSTER_SOURCE)
            assert client.produce("orders", batch_of([bytes(2_000)])).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_configs_of_a_deleted_topic_are_gone_with_it(broker: Broker, client: RawClient, topic: str) -> None:
    from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    alter(client, TOPIC, topic, ("max.message.bytes", SET, "1000"))
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000))
    broker.create_topics({topic: 1})
    assert value(client, topic, "max.message.bytes")[1] == DEFAULT_SOURCE


# ---- groups


def test_a_group_is_configured_before_it_exists_and_after_a_restart(tmp_path: Path) -> None:
    key, broker_key = "consumer.session.timeout.ms", "group.consumer.session.timeout.ms"
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert alter(client, GROUP, "readers", (key, SET, "50000")) is NONE
        assert listed_groups(client) == ["readers"]
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        own = describe(client, GROUP, "readers", include_synonyms=True)[key]
        other = describe(client, GROUP, "others", include_synonyms=True)[key]
        assert (own.value, own.config_source, own.read_only, own.config_type) == ("50000", GROUP_SOURCE, False, 3)
        assert [(synonym.name, synonym.value, synonym.source) for synonym in own.synonyms] == [
            (key, "50000", GROUP_SOURCE),
            (broker_key, "45000", DEFAULT_SOURCE),
        ]
        assert (other.value, other.config_source) == ("45000", DEFAULT_SOURCE)
        assert alter(client, GROUP, "readers", (key, DELETE, None)) is NONE
        assert describe(client, GROUP, "readers", [key])[key].config_source == DEFAULT_SOURCE
        assert listed_groups(client) == []


def test_a_group_shows_what_the_broker_was_started_with() -> None:
    settings = {"group.consumer.heartbeat.interval.ms": "6000", "group.share.session.timeout.ms": "46000"}
    with Broker(config=settings) as broker, RawClient(broker.port) as client:
        configs = describe(client, GROUP, "readers", include_synonyms=True)
        for key, default in (("consumer.heartbeat.interval.ms", "5000"), ("share.session.timeout.ms", "45000")):
            broker_key = f"group.{key}"
            assert (configs[key].value, configs[key].config_source) == (settings[broker_key], STATIC_SOURCE)
            assert [(synonym.name, synonym.value, synonym.source) for synonym in configs[key].synonyms] == [
                (broker_key, settings[broker_key], STATIC_SOURCE),
                (broker_key, default, DEFAULT_SOURCE),
            ]


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("readers", ("consumer.session.timeout.ms", SET, "44999"), ErrorCode.INVALID_CONFIG),  # below the minimum
        ("readers", ("consumer.session.timeout.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        ("readers", ("session.timeout.ms", SET, "45000"), ErrorCode.INVALID_CONFIG),
        ("", ("consumer.session.timeout.ms", SET, "45000"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_group_is_not_configured_against_the_brokers_limits(
    client: RawClient, name: str, change: Change, expected: ErrorCode
) -> None:
    assert alter(client, GROUP, name, change) is expected
    assert listed_groups(client) == []


def listed_groups(client: RawClient) -> list[str]:
    answer = client.call(ListConfigResourcesRequest(resource_types=[GROUP]))
    return [resource.resource_name for resource in answer.config_resources]


# ---- resources and log dirs


@pytest.mark.parametrize(
    ("resource_types", "version", "expected"),
    [
        ([], 0, set()),  # version 0 lists client metrics, of which there are none
        ([TOPIC], 1, {("payments", TOPIC)}),
        ([BROKER], 1, {("1", BROKER)}),
        ([], 1, {("payments", TOPIC), ("1", BROKER), ("1", BROKER_LOGGER)}),
    ],
)
def test_resources_that_have_configs_are_listed(
    client: RawClient, resource_types: list[int], version: int, expected: set[tuple[str, int]]
) -> None:
    answer = client.call(ListConfigResourcesRequest(resource_types=resource_types), version)
    assert answer.error_code == NONE
    listed = {(resource.resource_name, resource.resource_type) for resource in answer.config_resources}
    assert expected <= listed
    assert {resource_type for _, resource_type in listed} <= set(resource_types or (TOPIC, BROKER, BROKER_LOGGER))


def test_a_resource_type_that_is_none_is_refused(client: RawClient) -> None:
    answer = client.call(ListConfigResourcesRequest(resource_types=[TOPIC, 77]))
    assert ErrorCode(answer.error_code) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, 6))
def test_every_version_describes_log_dirs(broker: Broker, client: RawClient, topic: str, version: int) -> None:
    batch = good()
    client.produce(topic, batch)
    asked = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 5]),
        DescribableLogDirTopic(topic="none", partitions=[0]),
    ]
    answer = client.call(DescribeLogDirsRequest(topics=asked), version)
    [log_dir] = answer.results
    assert (answer.error_code, log_dir.error_code) == (NONE, NONE)
    assert os.path.samefile(log_dir.log_dir, broker.data_dir)
    [described] = log_dir.topics
    [partition] = described.partitions
    assert (described.name, partition.partition_index, partition.partition_size) == (topic, 0, len(batch))
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert log_dir.total_bytes >= log_dir.usable_bytes > 0


def test_all_log_dirs_are_described_to_those_who_ask_for_all(client: RawClient, topic: str) -> None:
    [log_dir] = client.call(DescribeLogDirsRequest(topics=None)).results
    assert {topic, "payments"} <= {described.name for described in log_dir.topics}
