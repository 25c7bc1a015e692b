"""What a broker refuses itself, before the controller is asked."""

import pytest

from barnabas.broker.config.alter import refusals
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.stored.metadata_records import ConfigRecord
from barnabas.replication.controller.configuration_control import Alteration, ConfigOperation, Entry
from barnabas.replication.metadata.image import ConfigResource
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster

E = ErrorCode
SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
CONFIG = BrokerConfig.parse({"node.id": "1"})


def alteration(
    resource_type: int, name: str, *entries: tuple[str, int, str | None], replaces: bool = False
) -> Alteration:
    return Alteration(ConfigResource(resource_type, name), [Entry(*entry) for entry in entries], replaces)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (alteration(BROKER, "1", ("log.retention.ms", SET, "9")), E.NONE),
        (alteration(BROKER, "", ("log.retention.ms", SET, "9")), E.NONE),  # for all brokers: the one asked judges
        (alteration(BROKER, "1", ("log.retention.ms", SET, "soon")), E.INVALID_REQUEST),
        (alteration(BROKER, "1", ("log.retention.mss", SET, "9")), E.INVALID_CONFIG),  # no such key
        (alteration(BROKER, "1", ("node.id", SET, "9")), E.INVALID_REQUEST),  # never while it runs
        (alteration(BROKER, "1", ("log.retention.ms", SET, None)), E.INVALID_REQUEST),
        (alteration(BROKER, "1", ("log.retention.ms", APPEND, "9")), E.INVALID_CONFIG),  # no list
        (alteration(BROKER, "2", ("log.retention.ms", SET, "9")), E.INVALID_REQUEST),  # another's
        (alteration(BROKER, "one", ("log.retention.ms", SET, "9")), E.INVALID_REQUEST),
        (alteration(BROKER, "-1", ("log.retention.ms", SET, "9")), E.INVALID_REQUEST),
        (alteration(LOGGER, "1", ("root", SET, "DEBUG")), E.INVALID_CONFIG),
        (alteration(LOGGER, "2", ("root", SET, "DEBUG")), E.INVALID_REQUEST),
        (alteration(LOGGER, "1", ("root", SET, "DEBUG"), replaces=True), E.INVALID_REQUEST),
        (alteration(TOPIC, "orders", ("retention.ms", SET, "soon")), E.NONE),  # the controller's business
        (alteration(99, "x", ("y", SET, "z")), E.NONE),
    ],
)
def test_a_broker_judges_what_is_its_own(asked: Alteration, code: ErrorCode) -> None:
    (error,) = refusals([asked], cluster(1, 2), CONFIG)
    assert (E.NONE if error is None else error.code) == code


def test_values_are_judged_together_with_those_that_are_set_already() -> None:
    record = ConfigRecord(resource_type=BROKER, resource_name="1", name="log.cleaner.max.compaction.lag.ms", value="8")
    image = replayed(cluster(1), [record])
    asked = alteration(BROKER, "1", ("log.cleaner.min.compaction.lag.ms", SET, "9"))
    assert refusals([asked], cluster(1), CONFIG) == [None]
    (error,) = refusals([asked], image, CONFIG)
    assert error is not None
    assert error.code == E.INVALID_REQUEST


def test_a_resource_that_is_named_twice_is_refused_twice_whatever_it_is() -> None:
    asked = [alteration(TOPIC, "orders"), alteration(BROKER, "1"), alteration(TOPIC, "orders")]
    first, second, third = refusals(asked, cluster(1), CONFIG)
    assert first is not None
    assert third is not None
    assert (first.code, second, third.code) == (E.INVALID_REQUEST, None, E.INVALID_REQUEST)
