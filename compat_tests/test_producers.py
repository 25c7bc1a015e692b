"""How records are sent: acknowledgements, idempotence, sizes from one byte to 10 MB, topics that make themselves."""

import itertools

import pytest

from compat_tests.conftest import Drivers
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.features import ACKS

SIZES_BYTES = (1, 100, 10_000, 1_000_000, 10_000_000)
NAMES = names(ACKS)


def numbered(count: int) -> list[Record]:
    return [Record(key=b"key", value=b"%d" % number) for number in range(count)]


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_in_order_whatever_acks_says(client: Driver, acks: str) -> None:
    topic = f"acks-{acks}-{client.client.name}"
    sent = numbered(5)
    client.produce(topic, [Record(value=b"first")])  # creates the topic: with acks=0 nobody would retry
    offsets = client.produce(topic, sent, acks=acks)
    if client.client.tells_offsets and acks != "0":
        assert offsets == [1, 2, 3, 4, 5]
    assert values(client.consume(topic, 6)) == [b"first", *values(sent)]


def test_an_idempotent_producer_gets_consecutive_offsets(client: Driver) -> None:
    topic = f"idempotent-{client.client.name}"
    rounds = [client.produce(topic, numbered(20), idempotence=True) for _ in range(2)]
    if client.client.tells_offsets:
        assert list(itertools.chain.from_iterable(rounds)) == list(range(40))
    assert values(client.consume(topic, 40)) == values(numbered(20)) * 2


def test_producing_to_an_unknown_topic_creates_it(client: Driver, drivers: Drivers) -> None:
    topic = f"created-by-producing-{client.client.name}"
    client.produce(topic, numbered(1))
    assert topic in drivers["confluent-kafka"].ask("list_topics")["topics"]
    assert drivers["confluent-kafka"].ask("describe_topic", topic=topic) == {"partitions": 1}


def test_records_from_one_byte_to_ten_megabytes(client: Driver, drivers: Drivers) -> None:
    topic = f"sizes-{client.client.name}"
    sent = [Record(value=bytes([number]) * size) for number, size in enumerate(SIZES_BYTES)]
    client.produce(topic, sent, idempotence=True)
    another = drivers[NAMES[(NAMES.index(client.client.name) + 1) % len(NAMES)]]
    for reader in (client, another):
        assert values(reader.consume(topic, len(sent))) == values(sent)
