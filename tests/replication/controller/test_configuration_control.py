from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pytest

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.stored.metadata_records import ConfigRecord
from barnabas.replication.controller.configuration_control import ConfigOperation
from barnabas.replication.controller.decision import Decision
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, decided, new_topic, with_topics

E = ErrorCode
SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP

THROTTLED = "leader.replication.throttled.replicas"

Change: TypeAlias = tuple[str, int, str | None]
"""A key, what is done to it, and with which value."""
Replacement: TypeAlias = tuple[int, str, Sequence[tuple[str, str | None]]]
"""The type of a resource, its name, and everything that is to be set there."""


@pytest.fixture
def image() -> MetadataImage:
    return with_topics(cluster(1, 2), new_topic("orders", configs={"retention.ms": "5", "segment.ms": "7"}))


def resource(resource_type: int, name: str, *configs: Change) -> incremental.AlterConfigsResource:
    entries = [incremental.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in configs]
    return incremental.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=entries)


def alter(
    image: MetadataImage, *resources: incremental.AlterConfigsResource, validate_only: bool = False
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    request = incremental.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return decided(request, image)


def replace(
    image: MetadataImage, *resources: Replacement, validate_only: bool = False
) -> Decision[legacy.AlterConfigsResponse]:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs],
            )
            for resource_type, name, configs in resources
        ],
        validate_only=validate_only,
    )
    return decided(request, image)


def codes(response: incremental.IncrementalAlterConfigsResponse | legacy.AlterConfigsResponse) -> list[ErrorCode]:
    return [ErrorCode(result.error_code) for result in response.responses]


KEPT = {"retention.ms": "5", "segment.ms": "7"}


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([("retention.ms", SET, "9")], {"retention.ms": "9", "segment.ms": "7"}),
        ([("retention.ms", DELETE, None)], {"segment.ms": "7"}),
        ([("retention.ms", DELETE, "ignored")], {"segment.ms": "7"}),
        ([("flush.ms", DELETE, None)], KEPT),  # it was not set: nothing to do
        ([("no.such.key", DELETE, None)], KEPT),  # neither was this, and removing it makes nothing worse
        ([("cleanup.policy", APPEND, "compact")], {**KEPT, "cleanup.policy": "delete,compact"}),  # to the default
        ([("cleanup.policy", APPEND, "delete")], {**KEPT, "cleanup.policy": "delete"}),  # it is there already
        ([("cleanup.policy", SUBTRACT, "compact")], {**KEPT, "cleanup.policy": "delete"}),
        ([("cleanup.policy", SUBTRACT, "delete,compact")], {**KEPT, "cleanup.policy": ""}),
        ([], KEPT),
    ],
)
def test_incremental_changes_touch_what_they_name(
    image: MetadataImage, configs: list[Change], expected: Mapping[str, str]
) -> None:
    records, response = alter(image, resource(TOPIC, "orders", *configs))
    assert codes(response) == [E.NONE]
    assert replayed(image, records).config(TOPIC, "orders") == expected


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "orders", ("retention.ms", SET, "soon")), E.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention.mss", SET, "5")), E.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")),
         E.INVALID_CONFIG),  # each is good, together they are not
        (resource(TOPIC, "orders", ("retention.ms", SET, None)), E.INVALID_REQUEST),
        (resource(TOPIC, "orders", ("retention.ms", APPEND, "5")), E.INVALID_CONFIG),  # no list
        (resource(TOPIC, "orders", ("retention.mss", SUBTRACT, "5")), E.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("cleanup.policy", APPEND, "shred")), E.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention.ms", 9, "5")), E.INVALID_REQUEST),  # no such operation
        (resource(TOPIC, "orders", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")), E.INVALID_REQUEST),
        (resource(TOPIC, "payments", ("retention.ms", SET, "5")), E.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "payments", ("retention.ms", SET, "x")), E.INVALID_CONFIG),  # values before existence
        (resource(TOPIC, "", ("retention.ms", SET, "5")), E.INVALID_REQUEST),  # topics share nothing
        (resource(TOPIC, "a b", ("retention.ms", SET, "5")), E.INVALID_TOPIC_EXCEPTION),
        (resource(BROKER, "", ("num.io.threads", SET, "9")), E.NONE),  # for all brokers
        (resource(BROKER, "1", ("num.io.threads", SET, "9")), E.NONE),
        (resource(BROKER, "1", ("log.cleaner.backoff", SET, "9")), E.NONE),
        (resource(BROKER, "", ("log.cleaner.backoff", SET, "9")), E.INVALID_REQUEST),  # only for one at a time
        (resource(BROKER, "1", ("node.id", SET, "9")), E.INVALID_REQUEST),  # never while it runs
        (resource(BROKER, "1", ("num.io.thread", SET, "9")), E.INVALID_CONFIG),
        (resource(BROKER, "2", ("num.io.threads", SET, "9")), E.NONE),  # whichever broker was asked has judged it
        (resource(BROKER, "2", ("num.io.threads", SET, "many")), E.INVALID_REQUEST),  # but no broker could have this
        (resource(BROKER, "", ("min.insync.replicas", SET, "many")), E.INVALID_REQUEST),
        (resource(BROKER, "9" * 5_000, ("num.io.threads", SET, "9")), E.INVALID_REQUEST),
        (resource(BROKER, "one", ("num.io.threads", SET, "9")), E.INVALID_REQUEST),
        (resource(BROKER, "-1", ("num.io.threads", SET, "9")), E.INVALID_REQUEST),
        (resource(ResourceType.BROKER_LOGGER, "1", ("root", SET, "DEBUG")), E.INVALID_REQUEST),  # never comes here
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "9")), E.NONE),  # whether the group exists or not
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "0")), E.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout", SET, "9")), E.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", APPEND, "9")), E.INVALID_CONFIG),
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "9")), E.INVALID_REQUEST),  # groups share nothing
        (resource(ResourceType.CLIENT_METRICS, "m", ("interval.ms", SET, "9")), E.INVALID_REQUEST),
        (resource(99, "x", ("y", SET, "z")), E.INVALID_REQUEST),
    ],
)  # fmt: skip
def test_a_resource_is_changed_or_refused_as_a_whole(
    image: MetadataImage, asked: incremental.AlterConfigsResource, code: E
) -> None:
    records, response = alter(image, asked)
    assert codes(response) == [code]
    assert bool(records) == (code == E.NONE)
    assert bool(response.responses[0].error_message) == (code != E.NONE)


def test_a_list_does_not_grow_beyond_what_a_record_can_hold(image: MetadataImage) -> None:
    replicas = [",".join(f"{partition}:{broker}" for partition in range(4_000)) for broker in (1, 2)]
    first, second = (resource(TOPIC, "orders", (THROTTLED, APPEND, added)) for added in replicas)
    image = replayed(image, alter(image, first).records)
    records, response = alter(image, second)
    assert (codes(response), list(records)) == ([E.INVALID_CONFIG], [])


def test_a_broker_that_is_not_registered_has_no_configuration() -> None:
    _, response = alter(cluster(2), resource(BROKER, "1", ("num.io.threads", SET, "9")))
    assert codes(response) == [E.BROKER_ID_NOT_REGISTERED]


def test_each_resource_stands_alone_and_one_named_twice_falls_twice(image: MetadataImage) -> None:
    records, response = alter(
        image,
        resource(TOPIC, "orders", ("retention.ms", SET, "1")),
        resource(BROKER, "", ("num.io.threads", SET, "9")),
        resource(TOPIC, "orders", ("retention.ms", SET, "2")),
    )
    assert codes(response) == [E.INVALID_REQUEST, E.NONE, E.INVALID_REQUEST]
    (record,) = records
    assert isinstance(record, ConfigRecord)
    assert (record.name, record.value) == ("num.io.threads", "9")


def test_a_value_that_stays_makes_a_record_only_for_a_broker(image: MetadataImage) -> None:
    records, _ = alter(image, resource(TOPIC, "orders", ("retention.ms", SET, "5")))
    assert not records
    image = replayed(image, alter(image, resource(BROKER, "1", ("num.io.threads", SET, "9"))).records)
    records, _ = alter(image, resource(BROKER, "1", ("num.io.threads", SET, "9")))
    assert len(records) == 1  # this is how a broker is told to read its files again


def test_the_legacy_request_replaces_everything(image: MetadataImage) -> None:
    records, response = replace(image, (TOPIC, "orders", [("cleanup.policy", "compact"), ("segment.ms", "7")]))
    assert codes(response) == [E.NONE]
    assert replayed(image, records).config(TOPIC, "orders") == {"cleanup.policy": "compact", "segment.ms": "7"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ((TOPIC, "orders", [("retention.ms", None)]), E.INVALID_REQUEST),
        ((TOPIC, "orders", [("retention.ms", "1"), ("retention.ms", "2")]), E.INVALID_REQUEST),
        ((TOPIC, "orders", [("retention.ms", "x")]), E.INVALID_CONFIG),
        ((TOPIC, "payments", []), E.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "orders", []), E.NONE),  # everything goes back to the defaults
    ],
)
def test_the_legacy_request_has_the_same_rules(image: MetadataImage, asked: Replacement, code: E) -> None:
    records, response = replace(image, asked)
    assert codes(response) == [code]
    assert bool(records) == (code == E.NONE)


def test_validate_only_answers_but_decides_nothing(image: MetadataImage) -> None:
    records, response = replace(image, (TOPIC, "orders", []), validate_only=True)
    assert (list(records), codes(response)) == ([], [E.NONE])
    asked = resource(TOPIC, "orders", ("retention.ms", SET, "x"))
    records, refused = alter(image, asked, validate_only=True)
    assert (list(records), codes(refused)) == ([], [E.INVALID_CONFIG])
