"""Streams over a real broker: what they read, how they stop, and what they say when they fail."""

import argparse
import io
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.progress import Counts, Progress
from barnabas.pipelines.shared.stream import observe_newest, run_stream
from tests.pipelines.records import Record, create_topic, delete_topic, produce
from tests.processes.broker_process import BrokerProcess

NewTopic = Callable[..., str]
Options = Callable[..., argparse.Namespace]


@pytest.fixture
def options(broker: BrokerProcess, tmp_path: Path) -> Options:
    def parse(topic: str, *words: str, checkpoint: str = "checkpoint") -> argparse.Namespace:
        parser = common.parser("try", "", streaming=True)
        common.add_topics(parser)
        where = ("--bootstrap-servers", broker.bootstrap_servers, "--topic", topic)
        return parser.parse_args([*where, "--checkpoint", str(tmp_path / checkpoint), *words])

    return parse


def source(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    return spark.readStream.format("kafka").options(**common.source_settings(options)).load()


def records(count: int, partitions: int = 1) -> list[Record]:
    return [Record(value=b"%d" % number, partition=number % partitions) for number in range(count)]


def count_rows(batch: DataFrame, _batch_id: int) -> Counts:
    return Counts(rows_out=batch.count())


def committed(checkpoint: Path) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())


class Told(Progress):
    """Keeps what Spark told."""

    def __init__(self) -> None:
        self.output = io.StringIO()
        self.progress: list[dict[str, Any]] = []
        super().__init__("try", self.output, interval_s=0)

    def query_progressed(self, progress: dict[str, Any]) -> None:
        self.progress.append(progress)
        super().query_progressed(progress)


def test_once_reads_all_in_batches_and_tells_how_far_behind_it_is(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, options: Options
) -> None:
    topic = new_topic(2)
    produce(broker.bootstrap_servers, topic, records(10, partitions=2))
    given, told = options(topic, "--once", "--max-offsets-per-trigger", "6"), Told()

    def count_twice(batch: DataFrame, _batch_id: int) -> Counts:
        return Counts(rows_out=batch.count() + batch.count(), figures={"looks": 2})

    summary = run_stream(source(spark, given), count_twice, given, name="try", progress=told)
    assert (summary.batches, summary.rows_out, summary.figures, summary.stopped) == (2, 20, {"looks": 4}, False)
    assert [each["batchId"] for each in told.progress] == [0, 1]
    lines = told.output.getvalue().splitlines()
    assert "lag 4 records, " in lines[0]  # and the seconds: the newest record's age
    assert lines[0].rpartition("records, ")[2][0].isdecimal()
    assert lines[1].endswith(" · no lag · 4 looks")
    assert lines[2].startswith("try done: 2 batches, ")
    # The next run finds nothing new, and says so.
    again = run_stream(source(spark, given), count_rows, given, name="try", progress=Told())
    assert (again.batches, again.rows_in, again.rows_out) == (0, 0, None)


def test_a_batch_that_runs_is_finished_and_committed_before_a_stream_stops(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, options: Options, tmp_path: Path
) -> None:
    topic, done = new_topic(), []
    produce(broker.bootstrap_servers, topic, records(6))
    given = options(topic, "--every", "1ms", "--max-offsets-per-trigger", "2")

    def ask_to_stop(batch: DataFrame, batch_id: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)  # long enough for a query that does not wait to be stopped
        done.append((batch_id, [bytes(row.value) for row in batch.select("value").collect()]))

    before = signal.getsignal(signal.SIGINT)
    summary = run_stream(source(spark, given), ask_to_stop, given, name="try", progress=Told())
    assert signal.getsignal(signal.SIGINT) is before
    assert summary.stopped
    assert done == [(0, [b"0", b"1"])]
    assert committed(tmp_path / "checkpoint") == [0]
    given = options(topic, "--once")
    run_stream(source(spark, given), ask_to_stop, given, name="try", progress=Told())
    assert done[1][1][0] == b"2"  # the next run continues after it


def test_an_idle_stream_stops_at_once_when_it_is_terminated(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, options: Options
) -> None:
    given = options(new_topic(), "--every", "1h")
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    began = time.monotonic()
    summary = run_stream(source(spark, given), count_rows, given, name="try", progress=Told())
    assert summary.stopped
    assert time.monotonic() - began < 60, "it waited for its next batch"


def test_what_goes_wrong_in_a_batch_keeps_its_words(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, options: Options, tmp_path: Path
) -> None:
    topic = new_topic()
    produce(broker.bootstrap_servers, topic, records(3))
    given = options(topic, "--once")

    def fails(error: Exception) -> Callable[[DataFrame, int], None]:
        def each_batch(_batch: DataFrame, _batch_id: int) -> None:
            raise error

        return each_batch

    def spark_fails(batch: DataFrame, _batch_id: int) -> None:
        batch.select(F.expr("assert_true(false, 'the value is odd')")).collect()

    def sink_fails(batch: DataFrame, _batch_id: int) -> None:
        settings = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "200", "topic": "away"}
        batch.select("value").write.format("kafka").options(**settings).save()

    with pytest.raises(Failure, match=r"^our own words$"):
        run_stream(source(spark, given), fails(Failure("our own words")), given, name="try", progress=Told())
    with pytest.raises(ZeroDivisionError):  # a bug is not explained away
        run_stream(source(spark, given), fails(ZeroDivisionError()), given, name="try", progress=Told())
    with pytest.raises(Failure, match=r"^the value is odd$"):
        run_stream(source(spark, given), spark_fails, given, name="try", progress=Told())
    with pytest.raises(Failure, match=r"^topic away was not found in time: check that it exists and that the"):
        run_stream(source(spark, given), sink_fails, given, name="try", progress=Told())
    assert not (tmp_path / "checkpoint" / "commits" / "0").exists()
    assert run_stream(source(spark, given), count_rows, given, name="try", progress=Told()).rows_out == 3


def test_records_that_are_gone_stop_a_stream_with_what_to_do(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, options: Options
) -> None:
    topic, other = new_topic(), new_topic()
    produce(broker.bootstrap_servers, topic, records(5))
    given, going_on = options(topic, "--once"), options(topic, "--once", "--fail-on-data-loss", "false")
    run_stream(source(spark, given), count_rows, given, name="try", progress=Told())

    def failure(given: argparse.Namespace) -> str:
        with pytest.raises(Failure) as raised:
            run_stream(source(spark, given), count_rows, given, name="try", progress=Told())
        return str(raised.value)

    assert f"has read {topic}, which is not named any more" in failure(options(other, "--once"))
    produce(broker.bootstrap_servers, topic, records(5))
    delete_records(broker.bootstrap_servers, topic, 7)
    assert failure(given).startswith(f"{topic}-0: the records from offset 5 on were deleted before they were read")
    assert run_stream(source(spark, going_on), count_rows, going_on, name="try", progress=Told()).rows_out == 3
    delete_topic(broker.bootstrap_servers, topic)
    assert failure(given) == "a topic that is to be read does not exist: create it, or check its name"
    create_topic(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, records(2))
    assert f"{topic}-0 ends at offset 2, before offset 10 where this run was to continue" in failure(given)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in client.delete_records([TopicPartition(topic, 0, before)]).values():
        deleted.result(20)


def test_the_newest_record_is_observed_once_however_often_it_is_asked(
    spark: SparkSession, new_topic: NewTopic, options: Options
) -> None:
    frame = observe_newest(source(spark, options(new_topic())))
    assert observe_newest(frame) is frame
