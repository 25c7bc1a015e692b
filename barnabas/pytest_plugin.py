"""Fixtures for pytest: install barnabas, ask for `kafka_broker` or `kafka_topic`."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing import Broker


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
