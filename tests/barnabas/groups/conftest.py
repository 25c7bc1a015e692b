"""A broker, a topic, a group without members, and groups with one."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from barnabas.__main__ import main
from barnabas.testing import Broker
from tests.barnabas.groups.cluster import Barnabas, Done, Running, make_topic, new_name, produce
from tests.barnabas.processes import TIMEOUT_S


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    if servers := os.environ.get("BARNABAS_TEST_BOOTSTRAP_SERVERS"):
        yield servers
        return
    with Broker(config={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def barnabas(servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Barnabas:
    """Runs a command line in this process."""
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", servers)

    def command(line: str) -> Done:
        status = main(line.split())
        return Done(status, *capsys.readouterr())

    return command


@pytest.fixture(scope="module")
def topic(servers: str) -> str:
    """Ten records an hour old in partition 0, four in partition 1, none in partition 2."""
    name = make_topic(servers)
    produce(servers, name, 0, 10, age_s=3600)
    produce(servers, name, 1, 4)
    return name


@pytest.fixture
def group(barnabas: Barnabas, topic: str) -> str:
    """A group without members that has read 3 records of partition 0 and everything of partition 1."""
    name = new_name("billing")
    assert barnabas(f"groups reset-offsets {name} --topic {topic}:0 --to-offset 3 --execute").status == 0
    assert barnabas(f"groups reset-offsets {name} --topic {topic}:1 --to-latest --execute").status == 0
    return name


@pytest.fixture(scope="module", params=["classic", "consumer"])
def running(servers: str, request: pytest.FixtureRequest) -> Iterator[Running]:
    topic, group = make_topic(servers, 2), new_name(request.param)
    produce(servers, topic, 0, 5, age_s=60)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": request.param,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    assigned: list[Any] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + TIMEOUT_S
    message = None
    while message is None or not assigned:
        assert time.monotonic() < deadline, "no partition was assigned in time"
        message = consumer.poll(0.05)
    consumer.commit(message=message, asynchronous=False)
    yield Running(group, request.param, topic)
    consumer.close()
