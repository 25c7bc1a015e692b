"""What records look like when they arrive: many in a batch, none at all, the largest that is allowed, whose clock."""

import time

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.features import MANY_RECORDS
from compat_tests.harness.segments import record_counts_in

MANY = 3_000
LIMIT_BYTES = 10_000
# Around a value of this size: 61 bytes of batch, 3 of the record's length, 8 of its fields and their lengths.
AROUND_A_VALUE_BYTES = 72


def test_no_records_are_no_batch(client: Driver, drivers: Drivers) -> None:
    topic = f"none-{client.client.name}"
    drivers["kafka-python-3"].ask("create_topic", topic=topic, partitions=1, configs={})
    assert client.produce(topic, []) == []
    assert client.offsets(topic)["end"] == 0


@pytest.mark.parametrize("client", names(MANY_RECORDS), indirect=True)
def test_many_small_records_share_batches(client: Driver, drivers: Drivers, broker: Broker) -> None:
    topic = f"many-{client.client.name}"
    drivers["kafka-python-3"].ask("create_topic", topic=topic, partitions=1, configs={})
    sent = [Record(value=b"%d" % number) for number in range(MANY)]
    assert client.produce(topic, sent, idempotence=True, compression="lz4") == list(range(MANY))
    counts = record_counts_in(broker.first_segment(topic))
    assert sum(counts) == MANY
    assert len(counts) <= MANY / 10
    middle = MANY // 2 + 1
    read = client.consume(topic, MANY - middle, start={"offset": middle})
    assert [(record.offset, record.value) for record in read] == [(n, b"%d" % n) for n in range(middle, MANY)]


def test_a_batch_may_be_as_large_as_the_topics_limit_and_not_a_byte_larger(client: Driver, drivers: Drivers) -> None:
    topic = f"limited-{client.client.name}"
    limit = {"max.message.bytes": str(LIMIT_BYTES)}
    drivers["kafka-python-3"].ask("create_topic", topic=topic, partitions=1, configs=limit)
    largest = LIMIT_BYTES - AROUND_A_VALUE_BYTES
    with pytest.raises(DriverError, match=r"(?i)too.?large|larger than"):
        client.produce(topic, [Record(value=b"x" * (largest + 1))])
    client.produce(topic, [Record(value=b"x" * largest)])
    (record,) = client.consume(topic, 1)
    assert record.value == b"x" * largest


def test_with_log_append_time_the_brokers_clock_counts(client: Driver, drivers: Drivers, now_ms: int) -> None:
    topic = f"append-time-{client.client.name}"
    configs = {"message.timestamp.type": "LogAppendTime"}
    drivers["kafka-python-3"].ask("create_topic", topic=topic, partitions=1, configs=configs)
    before_ms = int(time.time() * 1000)
    client.produce(topic, [Record(value=b"%d" % number, timestamp=now_ms + number) for number in range(3)])
    after_ms = int(time.time() * 1000)
    for record in client.consume(topic, 3):
        assert record.timestamp is not None
        assert before_ms <= record.timestamp <= after_ms
    assert client.offsets(topic, timestamps=[now_ms, before_ms])["at"] == [0, 0]
