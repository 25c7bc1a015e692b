"""A broker, a topic, a command line that runs in this process, and producers of transactions."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from barnabas.__main__ import main
from barnabas.testing import Broker
from tests.barnabas.groups.cluster import Barnabas, Done, make_topic, new_name
from tests.barnabas.processes import TIMEOUT_S

NewProducer = Callable[[], Producer]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One whose time can be moved, so that nobody else's groups are on it."""
    config = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
    with Broker(config=config) as broker:
        yield broker


@pytest.fixture
def barnabas(broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Barnabas:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def command(line: str) -> Done:
        status = main(line.split())
        return Done(status, *capsys.readouterr())

    return command


@pytest.fixture
def topic(broker: Broker) -> str:
    return make_topic(broker.bootstrap_servers, 2)


@pytest.fixture
def transactional_id() -> str:
    return new_name("payments")


@pytest.fixture
def producer(broker: Broker, transactional_id: str) -> Producer:
    """A producer that may begin a transaction."""
    producer = new_producer(broker, transactional_id)
    producer.begin_transaction()
    return producer


def new_producer(broker: Broker, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "linger.ms": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(TIMEOUT_S)
    return producer


def send(producer: Producer, topic: str, partition: int = 0, value: bytes = b"x") -> None:
    producer.produce(topic, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
