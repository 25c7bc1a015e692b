"""A broker, a Spark session and a client beside it, for all tests of one PySpark version."""

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.conftest import Drivers, Restartable, own_name, require
from compat_tests.harness.driver import Driver
from compat_tests.spark.session import NewTopic, Spark, Topic, spark_client

for module in ("reading", "streaming", "losses", "transactions", "writing"):
    pytest.register_assert_rewrite(f"compat_tests.spark.{module}")

# Retention and compaction look again after a moment, and begin at once.
SETTINGS = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
}


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path_factory.mktemp("broker"), SETTINGS)
    with restartable.running:
        yield restartable
        assert restartable.broker.process.poll() is None, "the broker ended during the tests"


@pytest.fixture(scope="module")
def writer(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Writes what Spark is to read, reads what Spark wrote, and administers topics."""
    drivers = Drivers(restartable.broker.bootstrap, tmp_path_factory.mktemp("drivers"))
    yield drivers["confluent-kafka"]
    drivers.stop()


@pytest.fixture(scope="module")
def session(
    request: pytest.FixtureRequest, restartable: Restartable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Spark]:
    """Starts a session of the PySpark version that the module names."""
    folder = tmp_path_factory.mktemp("spark")
    client = spark_client(request.module.PYSPARK, folder)
    require(client.needs)
    driver = Driver(client, restartable.broker.bootstrap, folder / "spark.log")
    yield Spark(request.module.PYSPARK, driver)
    driver.stop()


@pytest.fixture
def spark(session: Spark) -> Iterator[Spark]:
    """Returns the session, and stops the test's queries afterwards."""
    yield session
    session.stop_queries()


@pytest.fixture
def new_topic(request: pytest.FixtureRequest, writer: Driver) -> NewTopic:
    """Creates topics named after the test."""

    def create(partitions: int = 1, suffix: str = "", **configs: Any) -> Topic:
        return Topic(writer, own_name(request)[:150] + suffix, partitions, **configs)

    return create
