"""Topics that nobody created: with auto.create.topics.enable they make themselves, without it clients are told."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers, start_broker
from compat_tests.harness.clients import names, taking_part
from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.features import CREATION, WAITING_FOR_TOPICS
from compat_tests.harness.groups import Group, Topic, classic, eventually

# kafka-python and the Java clients only know that they did not hear of the topic in time.
UNKNOWN_TOPIC = r"(?i)unknown.?topic|not present in metadata|failed to update metadata"
PATIENCE_MS = 1_500
NAMES = names(CREATION)
CREATORS = [client.name for client in taking_part(CREATION) if client.consumers_create_topics]


def refusal(driver: Driver) -> str:
    try:
        driver.produce(f"refused-{driver.client.name}", [Record(value=b"v")], timeout_ms=PATIENCE_MS)
    except DriverError as error:
        return str(error)
    return "acknowledged"


def reading(driver: Driver) -> str:
    """Returns what a consumer says, or "" if it only waits for the topic to come."""
    where: dict[str, Any] = {"topic": f"refused-{driver.client.name}", "partitions": [0], "start": {}, "reset": None}
    try:
        records = driver.ask("consume", count=1, timeout_ms=PATIENCE_MS, **where)["records"]
    except DriverError as error:
        return str(error)
    return f"read {records}" if records else ""


@pytest.mark.parametrize("name", CREATORS)
def test_a_consumer_creates_the_topic_that_it_subscribes_to(name: str, group: Group, drivers: Drivers) -> None:
    admin, topic = drivers["confluent-kafka"], f"{group.name}-topic"
    group.join(classic(name, "range"), topic)
    eventually(lambda: topic in admin.ask("list_topics")["topics"], "the topic is there", group.states)
    group.wait_until_shared(topic, partitions=1)
    admin.produce(topic, [Record(value=b"first")])
    group.wait_until_read([(topic, 0, 0)])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CREATORS])
def test_a_consumer_that_does_not_ask_for_it_creates_nothing(name: str, drivers: Drivers) -> None:
    reading(drivers[name])
    assert f"refused-{name}" not in drivers["kafka-python-3"].ask("list_topics")["topics"]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Starts a broker where topics are not created automatically."""
    settings = {"auto.create.topics.enable": "false"}
    with start_broker(tmp_path_factory.mktemp("strict"), settings=settings) as broker:
        yield broker


class Refused:
    """All clients at once, because each of them waits until its time is up."""

    def __init__(self, drivers: Drivers, strict: Broker) -> None:
        asked = [drivers[name].at(strict.bootstrap) for name in NAMES]
        with ThreadPoolExecutor(len(asked)) as pool:
            self.producers = dict(zip(NAMES, pool.map(refusal, asked)))
            self.consumers = dict(zip(NAMES, pool.map(reading, asked)))


@pytest.fixture(scope="module")
def refused(drivers: Drivers, strict: Broker) -> Refused:
    return Refused(drivers, strict)


@pytest.mark.parametrize("name", NAMES)
def test_a_producer_is_told_that_the_topic_is_unknown(refused: Refused, name: str) -> None:
    assert re.search(UNKNOWN_TOPIC, refused.producers[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_consumer_of_an_unknown_topic_is_told_or_waits(refused: Refused, name: str) -> None:
    said = refused.consumers[name]
    assert said == "" or re.search(UNKNOWN_TOPIC, said)


def test_none_of_them_has_created_a_topic(refused: Refused, drivers: Drivers, strict: Broker) -> None:
    topics = drivers["confluent-kafka"].at(strict.bootstrap).ask("list_topics")["topics"]
    assert not [topic for topic in topics if topic.startswith("refused")]


@pytest.mark.parametrize("client", names(WAITING_FOR_TOPICS), indirect=True)
def test_members_that_wait_for_a_topic_read_it_when_it_comes(
    client: Driver, group: Group, drivers: Drivers, strict: Broker
) -> None:
    group.driver_of = lambda name: drivers[name].at(strict.bootstrap)
    name = f"{group.name}-topic"
    group.join(classic(client.client.name, "range"), name)
    topic = Topic(drivers["kafka-python-3"].at(strict.bootstrap), name, 2)
    topic.write()
    group.wait_until_shared(name, partitions=2)
    group.wait_until_read(topic.written)
