"""What the tests of `barnabas groups` share: a command line that runs here, topics, records."""

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Producer

from barnabas.client.admin import create_topic
from barnabas.client.client import Client
from barnabas.client.connection import parse_addresses
from tests.barnabas.processes import TIMEOUT_S


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


Barnabas = Callable[[str], Done]


def new_name(prefix: str) -> str:
    return f"{prefix}-{time.time_ns()}"


def make_topic(servers: str, partitions: int = 3) -> str:
    name = new_name("orders")
    with Client(parse_addresses(servers)) as client:
        create_topic(client, name, partitions)
    return name


def produce(
    servers: str, topic: str, partition: int, count: int, *, age_s: float = 0, compression: str = "none"
) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": compression})
    timestamp = time.time_ns() // 1_000_000 - round(age_s * 1000)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=timestamp)
    assert producer.flush(TIMEOUT_S) == 0


class Running(NamedTuple):
    """A group with one member that has been assigned every partition."""

    group: str
    type: str
    topic: str
