"""What queries do when records, topics and the broker itself go away under them."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.conftest import Restartable
from compat_tests.harness.driver import DriverError
from compat_tests.harness.groups import eventually
from compat_tests.spark.session import AVAILABLE_NOW, EARLIEST, QUERY_SECONDS, NewTopic, Spark, Topic, offsets

RETENTION_MS = 1_800_000
# For the moments in which a topic comes or goes: Kafka's admin client may ask for offsets of a topic that is deleted
# meanwhile until its time is up, which is a minute otherwise; then Spark begins again.
IMPATIENT: dict[str, Any] = {"kafka.request.timeout.ms": 1000, "kafka.default.api.timeout.ms": 1000}
MANY_ATTEMPTS: dict[str, Any] = {"fetchOffset.numRetries": 500, **IMPATIENT}


def delete_records(topic: Topic, now_ms: int) -> None:
    topic.write(3)
    topic.delete_before(5)
    topic.write(2)


def expire_records(topic: Topic, now_ms: int) -> None:
    """Lets records expire: two new records close the segment of those before them, which are too old soon after."""
    topic.write(3, timestamps=[now_ms] * 3)
    topic.write(2)
    topic.ask("alter_topic_configs", configs={"retention.ms": str(RETENTION_MS)})
    eventually(
        lambda: topic.offsets() == (5, 7), "retention has deleted a segment", topic.offsets, seconds=QUERY_SECONDS
    )


@pytest.mark.parametrize("lose", [delete_records, expire_records])
def test_records_that_are_gone_fail_a_query_unless_losses_are_allowed(
    spark: Spark, new_topic: NewTopic, now_ms: int, tmp_path: Path, lose: Callable[[Topic, int], None]
) -> None:
    topic = new_topic(**{"segment.ms": 60_000})
    topic.write(2, timestamps=[now_ms] * 2)
    spark.run(tmp_path, subscribe=topic.name, **EARLIEST)
    lose(topic, now_ms)
    lost = lost_message(spark, topic, 2, 7)
    assert lost in spark.start(tmp_path, AVAILABLE_NOW, subscribe=topic.name).failure()
    assert offsets(spark.run(tmp_path, subscribe=topic.name, failOnDataLoss=False).rows) == {0: [5, 6]}

    with pytest.raises(DriverError) as failed:
        spark.read(subscribe=topic.name, startingOffsets={topic.name: {"0": 2}})
    assert lost in str(failed.value)
    rows = spark.read(subscribe=topic.name, startingOffsets={topic.name: {"0": 2}}, failOnDataLoss=False)
    assert offsets(rows) == {0: [5, 6]}
    assert offsets(spark.read(subscribe=topic.name)) == {0: [5, 6]}  # earliest is what is still there


def lost_message(spark: Spark, topic: Topic, begin: int, end: int) -> str:
    if spark.version < "4":
        return f"Cannot fetch offset {begin}"
    return f"Could not read records in offset [{begin}, {end}) for topic partition {topic.name}-0"


def test_an_offset_that_was_never_written_is_an_error(spark: Spark, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.write(3)
    with pytest.raises(DriverError, match="Beginning offset 99 is after the ending offset 3"):
        spark.read(subscribe=topic.name, startingOffsets={topic.name: {"0": 99}})


def test_a_topic_that_is_deleted_fails_the_queries_that_subscribe_it_by_name(
    spark: Spark, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    topic.write(4)
    queries = [
        spark.start(tmp_path / str(fail), subscribe=topic.name, failOnDataLoss=fail, **EARLIEST, **IMPATIENT)
        for fail in (True, False)
    ]
    for query in queries:
        query.wait_for_rows(4)
    topic.ask("delete_topic")
    for query in queries:
        assert "This server does not host this topic-partition." in query.failure()


def test_a_topic_that_is_deleted_is_data_lost_by_a_query_with_a_pattern(
    spark: Spark, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, other = new_topic(1, "-a"), new_topic(1, "-b")
    topic.write(2)
    pattern: dict[str, Any] = {"subscribePattern": topic.name.removesuffix("-a") + "-.", **EARLIEST, **MANY_ATTEMPTS}
    strict = spark.start(tmp_path / "strict", **pattern)
    lenient = spark.start(tmp_path / "lenient", failOnDataLoss=False, **pattern)
    strict.wait_for_rows(2)
    lenient.wait_for_rows(2)
    topic.ask("delete_topic")
    other.write(1)
    gone = "have been deleted" if spark.version >= "4" else "are gone"
    assert f"{topic.name}-0) {gone}" in strict.failure()
    assert [(row.topic, row.offset) for row in lenient.wait_for_rows(3).rows[2:]] == [(other.name, 0)]


def test_a_topic_that_was_made_again_with_less_in_it_is_data_lost(
    spark: Spark, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    topic.write(4)
    for fail in (True, False):
        spark.run(tmp_path / str(fail), subscribe=topic.name, **EARLIEST)
    topic.ask("delete_topic")
    topic.create()
    topic.write(2)
    changed = "offset was changed from 4 to 2"
    assert changed in spark.start(tmp_path / "True", AVAILABLE_NOW, subscribe=topic.name).failure()

    options: dict[str, Any] = {"subscribe": topic.name, "failOnDataLoss": False}
    assert spark.run(tmp_path / "False", **options).rows == []
    topic.write(3)
    assert offsets(spark.run(tmp_path / "False", **options).rows) == {0: [2, 3, 4]}


def test_a_query_reads_on_in_a_topic_that_was_made_again_with_more_in_it(
    spark: Spark, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    topic.write(4)
    query = spark.start(tmp_path, subscribe=topic.name, **EARLIEST, **MANY_ATTEMPTS)
    query.wait_for_rows(4)
    topic.ask("delete_topic")
    topic.create()
    topic.write(6)
    assert offsets(query.wait_for_rows(6).rows) == {0: [0, 1, 2, 3, 4, 5]}


def test_queries_go_on_when_the_broker_is_killed_and_comes_back(
    spark: Spark, new_topic: NewTopic, restartable: Restartable, tmp_path: Path
) -> None:
    topic, copy = new_topic(), new_topic(1, "-copy")
    topic.write(60)
    options: dict[str, Any] = {"subscribe": topic.name, "maxOffsetsPerTrigger": 10, **EARLIEST}
    reading = spark.start(tmp_path / "reading", **options)
    copying = spark.start(tmp_path / "copying", columns=("value",), sink={"topic": copy.name}, **options)
    reading.wait_for_rows(6)
    eventually(lambda: copy.offsets()[1] >= 6, "copies arrive", seconds=QUERY_SECONDS)
    restartable.restart(signal.SIGKILL)
    topic.write(20)
    assert offsets(reading.wait_for_rows(80).rows) == {0: list(range(80))}
    eventually(lambda: copy.offsets()[1] >= 80, "everything is copied", copying.state, seconds=QUERY_SECONDS)
    for query in (reading, copying):
        assert query.stop().failure is None
    assert copy.offsets() == (0, 80)
    assert copy.values(80) == [b"%d" % number for number in range(80)]
