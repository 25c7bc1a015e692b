"""Fixtures for pytest: install barnabas, ask for `kafka_broker`, `kafka_topic` or `kafka_cluster`."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing import Broker, Cluster

_MARKER = "kafka_cluster(brokers=3, topics=None, config=None): what the cluster of this test is made with"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def kafka_broker() -> "Iterator[Broker]":
    """Starts a broker for the whole session; `kafka_broker.bootstrap_servers` is its address."""
    from barnabas.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: "Broker", request: pytest.FixtureRequest) -> str:
    """Creates a topic with one partition for this test alone, and returns its name."""
    letters = (letter if letter.isascii() and letter.isalnum() else "-" for letter in request.node.name)
    name = f"{''.join(letters)[:200]}-{os.urandom(6).hex()}"
    kafka_broker.create_topics({name: 1})
    return name


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """Starts a cluster of three brokers for this test alone, which may kill, pause and cut off any of them. The marker
    `kafka_cluster` takes another number of brokers, topics, and a configuration."""
    from barnabas.testing import Cluster

    marker = request.node.get_closest_marker("kafka_cluster")
    if marker is not None and marker.args:
        raise pytest.UsageError(f"kafka_cluster takes its arguments by name: brokers={marker.args[0]!r}, …")
    with Cluster(**(marker.kwargs if marker is not None else {})) as cluster:
        yield cluster
