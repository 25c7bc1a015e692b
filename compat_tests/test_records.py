"""What one client wrote, every client reads: keys, values, headers and timestamps, under all five compressions."""

from typing import NamedTuple

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.features import RECORDS as RECORDS_OF_ALL
from compat_tests.harness.segments import COMPRESSIONS, compressions_in

# One partition per compression; each row says what it is there for.
RECORDS = (
    Record(key=b"key", value=b"value", headers=(("name", b"text"),)),
    Record(key=None, value=b"no key"),
    Record(key=b"tombstone", value=None),  # what compaction deletes by
    Record(key=b"empty value", value=b""),  # not the same as no value
    Record(key=b"", value=b"empty key"),
    Record(key=b"\xff\xfe\x01", value=bytes(range(256))),  # bytes, not text
    Record(
        key=b"headers", value=b"", headers=(("twice", b"1"), ("twice", b"2"), ("empty", b""), ("bytes", b"\xff\xfe"))
    ),
    Record(key=b"null header", value=b"v", headers=(("nothing", None),)),
    Record(key="schlüssel".encode(), value=b"v", headers=(("überschrift", "größe".encode()),)),
    Record(key=b"compressible", value=b"Barnabas " * 1000),  # so that compressing pays
)


class Written(NamedTuple):
    writer: Driver
    topic: str
    records: list[Record]  # as every reader must see them


@pytest.fixture(scope="module", params=names(RECORDS_OF_ALL))
def written(request: pytest.FixtureRequest, drivers: Drivers, now_ms: int) -> Written:
    """Writes all records under all compressions, once with each client."""
    writer, topic = drivers[request.param], f"written-by-{request.param}"
    drivers["kafka-python-3"].ask("create_topic", topic=topic, partitions=len(COMPRESSIONS), configs={})
    expected: list[Record] = []
    sendable = [r for r in RECORDS if writer.client.sends_null_headers or ("nothing", None) not in r.headers]
    for partition, compression in enumerate(COMPRESSIONS):
        records = [r._replace(partition=partition, timestamp=now_ms + index) for index, r in enumerate(sendable)]
        writer.produce(topic, records, compression=compression, idempotence=True)
        expected += [record._replace(offset=offset) for offset, record in enumerate(records)]
    return Written(writer, topic, expected)


def test_what_one_client_wrote_every_client_reads(written: Written, client: Driver, now_ms: int) -> None:
    read = client.consume(written.topic, len(written.records), partitions=range(len(COMPRESSIONS)))
    if not written.writer.client.sets_timestamps:
        assert all(record.timestamp is not None and record.timestamp > now_ms for record in read)
        read = [record._replace(timestamp=wanted.timestamp) for record, wanted in zip(read, written.records)]
    assert read == written.records


def test_what_was_to_be_compressed_is_compressed(written: Written, broker: Broker) -> None:
    # librdkafka silently sends plain batches to a broker whose advertised versions it does not trust.
    for partition, compression in enumerate(COMPRESSIONS):
        assert compression in compressions_in(broker.first_segment(written.topic, partition))
