"""What a consumer may do besides reading on: pause partitions, begin at the end, fall off either end of a partition."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.conftest import Drivers
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, DriverError, Record, decoded
from compat_tests.harness.features import OUT_OF_RANGE, PAUSE

TOPIC = "consumers"
PARTITIONS = 3
COUNT = 5


@pytest.fixture(scope="module")
def topic(drivers: Drivers) -> str:
    """Creates three partitions with five records each."""
    writer = drivers["kafka-python-3"]
    writer.ask("create_topic", topic=TOPIC, partitions=PARTITIONS, configs={})
    writer.produce(TOPIC, [Record(value=b"%d" % n, partition=p) for p in range(PARTITIONS) for n in range(COUNT)])
    return TOPIC


def places(records: list[dict[str, int]]) -> list[tuple[int, int]]:
    return sorted((record["partition"], record["offset"]) for record in records)


@pytest.mark.parametrize("client", names(PAUSE), indirect=True)
def test_nothing_comes_from_paused_partitions_until_they_are_resumed(client: Driver, topic: str) -> None:
    answer = client.ask(
        "consume_paused",
        topic=topic,
        partitions=[0, 1, 2],
        pause=[0, 2],
        count=COUNT,
        after=2 * COUNT,
        timeout_ms=20_000,
    )
    assert places(answer["records"]) == [(1, offset) for offset in range(COUNT)]
    assert places(answer["after"]) == [(partition, offset) for partition in (0, 2) for offset in range(COUNT)]


def test_reading_from_the_end_leaves_out_what_was_there_before(client: Driver, drivers: Drivers) -> None:
    topic = f"end-{client.client.name}"
    writer = drivers["aiokafka" if client.client.name == "kafka-python-3" else "kafka-python-3"]
    writer.ask("create_topic", topic=topic, partitions=1, configs={})
    before = 3
    writer.produce(topic, [Record(value=b"before")] * before)
    where = {"topic": topic, "partitions": [0], "start": {"end": True}, "reset": None}
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(client.ask, "consume", count=1, timeout_ms=20_000, **where)
        while not reading.done():  # whether it has found the end already, only the first record tells
            writer.produce(topic, [Record(value=b"after")])
    records = [decoded(record) for record in reading.result()["records"]]
    assert {record.value for record in records} == {b"after"}
    first = records[0].offset
    assert first is not None
    assert first >= before
    assert [record.offset for record in records] == list(range(first, first + len(records)))


@pytest.mark.parametrize("client", names(OUT_OF_RANGE), indirect=True)
@pytest.mark.parametrize("offset", [COUNT + 1, 1_000_000])  # just past the end, and far from it
def test_an_offset_that_is_not_there_is_an_error_where_no_reset_is_wanted(
    client: Driver, topic: str, offset: int
) -> None:
    with pytest.raises(DriverError, match=r"(?i)out.?of.?range"):
        client.consume(topic, 1, start={"offset": offset}, reset="none")


def test_an_offset_that_is_not_there_becomes_the_first_one(client: Driver, topic: str) -> None:
    records = client.consume(topic, COUNT, start={"offset": 1_000_000}, reset="earliest")
    assert [record.offset for record in records] == list(range(COUNT))


def test_an_offset_that_was_deleted_is_out_of_range_too(client: Driver, drivers: Drivers) -> None:
    topic = f"deleted-{client.client.name}"
    admin = drivers["kafka-python-3"]
    admin.ask("create_topic", topic=topic, partitions=1, configs={})
    admin.produce(topic, [Record(value=b"%d" % number) for number in range(COUNT)])
    admin.ask("delete_records", topic=topic, partition=0, before=3)
    if client.client.excuse(OUT_OF_RANGE) is None:
        with pytest.raises(DriverError, match=r"(?i)out.?of.?range"):
            client.consume(topic, 1, start={"offset": 1}, reset="none")
    assert [record.offset for record in client.consume(topic, 2, start={"offset": 1}, reset="earliest")] == [3, 4]
