"""A broker whose clients speak version 1 of transactions, beside the one of all tests; producers that are ended with
their test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers, own_name, start_broker
from compat_tests.harness.driver import Driver
from compat_tests.harness.transactions import Speaker, Transactional

FEATURES_TOOL = "org.apache.kafka.tools.FeatureCommand"


@pytest.fixture(scope="module")
def broker_of_version_1(drivers: Drivers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Starts one and takes the newer version from it: clients look at that before they choose theirs."""
    with start_broker(tmp_path_factory.mktemp("version-1")) as broker:
        arguments = ["--bootstrap-server", broker.bootstrap, "downgrade", "--feature", "transaction.version=1"]
        done = drivers["java-4.3"].ask("tool", tool=FEATURES_TOOL, arguments=arguments)
        assert done["code"] == 0, done
        yield broker


@pytest.fixture
def speaking(request: pytest.FixtureRequest, drivers: Drivers) -> Callable[[str, int], Driver]:
    """Returns drivers of clients, asked about a broker with which they speak this version."""

    def driver(client: str, version: int) -> Driver:
        chosen = drivers[client]
        if version == 2 or chosen.client.transactions_version == 1:
            return chosen
        return chosen.at(request.getfixturevalue("broker_of_version_1").bootstrap)

    return driver


class Stage:
    """What a test of transactions stands on: its speaker, its topic, and producers with ids of their own."""

    def __init__(self, driver: Driver, admin: Driver, reader: Driver, name: str) -> None:
        self.driver = driver
        self.admin = admin
        self.reader = reader  # in another process than the producers: it may wait for them
        self.name = name
        self.producers: list[Transactional] = []
        self.create_topic(name)

    def create_topic(self, topic: str, partitions: int = 1, **configs: str) -> None:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.ask("create_topic", topic=topic, partitions=partitions, configs=given)

    def producer(self, transactional_id: str | None = None, **settings: Any) -> Transactional:
        name = f"{self.name}-{len(self.producers)}"
        self.producers.append(Transactional(self.driver, name, transactional_id or self.name, **settings))
        return self.producers[-1]


@pytest.fixture
def stage(request: pytest.FixtureRequest, speaking: Callable[[str, int], Driver]) -> Iterator[Stage]:
    speaker: Speaker = request.getfixturevalue("speaker")
    driver = speaking(*speaker)
    admin, reader = (
        speaking(name, 2).at(driver.bootstrap)
        for name in ("java-4.3", "aiokafka" if speaker.client == "confluent-kafka" else "confluent-kafka")
    )
    stage = Stage(driver, admin, reader, own_name(request))
    yield stage
    for producer in stage.producers:
        producer.drop()
