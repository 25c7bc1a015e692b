"""Where to start reading: by offset, by time, at the beginning, at the end; and waiting for what is not there yet."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.conftest import Drivers
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.features import MANY_OFFSETS

TOPIC = "offsets"
COUNT = 10
STEP_MS = 1_000
EARLIEST, LATEST = -2, -1


@pytest.fixture(scope="module")
def records(drivers: Drivers, now_ms: int) -> list[Record]:
    """Writes ten records, a second apart, in several batches."""
    writer = drivers["kafka-python-3"]
    writer.ask("create_topic", topic=TOPIC, partitions=1, configs={})
    records = [
        Record(key=b"%d" % number, value=b"v%d" % number, timestamp=now_ms + number * STEP_MS, offset=number)
        for number in range(COUNT)
    ]
    for first in range(0, COUNT, 4):
        writer.produce(TOPIC, records[first : first + 4])
    return records


@pytest.mark.parametrize("offset", [0, 2, 9])  # the first, one inside a batch, the last
def test_reading_starts_at_the_offset_asked_for(client: Driver, records: list[Record], offset: int) -> None:
    assert client.consume(TOPIC, COUNT - offset, start={"offset": offset}) == records[offset:]


@pytest.mark.parametrize(
    ("after_ms", "first"),
    [
        (0, 0),
        (3 * STEP_MS, 3),  # exactly a record's time
        (3 * STEP_MS + 1, 4),  # between two records: the later one
    ],
)
def test_reading_starts_at_the_time_asked_for(
    client: Driver, records: list[Record], now_ms: int, after_ms: int, first: int
) -> None:
    assert client.consume(TOPIC, COUNT - first, start={"timestamp": now_ms + after_ms}) == records[first:]


def test_offsets_are_found_by_place_and_by_time(client: Driver, records: list[Record], now_ms: int) -> None:
    cases = {
        now_ms - 1: 0,  # before everything
        now_ms + 5 * STEP_MS: 5,
        now_ms + 5 * STEP_MS - 1: 5,
        now_ms + 9 * STEP_MS: 9,
    }
    found = client.offsets(TOPIC, timestamps=cases)
    assert found == {"beginning": 0, "end": COUNT, "at": list(cases.values())}


def test_no_offset_is_found_after_the_last_record(client: Driver, records: list[Record], now_ms: int) -> None:
    (found,) = client.offsets(TOPIC, timestamps=[now_ms + COUNT * STEP_MS])["at"]
    # librdkafka and kafkajs answer with the end of the partition, the others with nothing.
    assert found in (None, COUNT)


def test_a_reader_that_waits_at_the_end_gets_what_arrives(client: Driver, drivers: Drivers) -> None:
    topic = f"waiting-{client.client.name}"
    writer = drivers["aiokafka" if client.client.name == "kafka-python-3" else "kafka-python-3"]
    writer.ask("create_topic", topic=topic, partitions=1, configs={})
    writer.produce(topic, [Record(value=b"before")])
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(client.consume, topic, 1, start={"offset": 1})
        writer.produce(topic, [Record(value=b"after")])
        assert [record.value for record in reading.result()] == [b"after"]


@pytest.fixture(scope="module")
def several(drivers: Drivers, now_ms: int) -> str:
    """Creates three partitions: an empty one, one with two records, and one that lost its first three."""
    writer, topic = drivers["kafka-python-3"], "several"
    writer.ask("create_topic", topic=topic, partitions=3, configs={})
    for partition, count in ((1, 2), (2, COUNT)):
        writer.produce(topic, [Record(value=b"v", partition=partition, timestamp=now_ms + n) for n in range(count)])
    writer.ask("delete_records", topic=topic, partition=2, before=3)
    return topic


@pytest.mark.parametrize("client", names(MANY_OFFSETS), indirect=True)
def test_the_offsets_of_several_partitions_are_found_in_one_question(client: Driver, several: str, now_ms: int) -> None:
    def listed(timestamp: int) -> list[int | None]:
        where = {"topic": several, "partitions": [2, 0, 1], "timestamp": timestamp}
        offsets: list[int | None] = client.ask("list_offsets", **where)["offsets"]
        return offsets

    assert listed(EARLIEST) == [3, 0, 0]
    assert listed(LATEST) == [COUNT, 0, 2]
    at = listed(now_ms + 1)
    assert (at[0], at[2]) == (3, 1)  # of what is left of one, and in the middle of another
    assert at[1] in (None, 0)  # the empty one: librdkafka answers with its end
