"""Windows of JSON events with real Spark and a real broker, beside the same windows computed in plain Python."""

import argparse
import json
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines import rollup
from barnabas.pipelines.rollups.dead_letters import DeadLetters, Unused
from barnabas.pipelines.shared.failure import Failure
from tests.pipelines.gated_broker import GatedBroker
from tests.pipelines.jobs import running_job
from tests.pipelines.records import Record, create_topic, produce, read
from tests.pipelines.rollups.events import Event, Expected, by_window
from tests.processes.broker_process import BrokerProcess

FIELDS = ["--time-field", "at", "--key-field", "user=user.id", "--value-field", "amount", "--distinct-field", "item"]
CORRUPT = Record(b"k", b'{"at": 17632', headers=(("trace", b"1"),), partition=1)


class Job:
    """A rollup on the shared session."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, topic: str, folder: Path, *words: str) -> None:
        self.spark, self.bootstrap_servers, self.topic, self.folder = spark, broker.bootstrap_servers, topic, folder
        self.output = folder / "out"
        self.words = [*FIELDS, "--quantiles", "0.5", *words]

    def all_words(self, *more: str) -> list[str]:
        place = ["--bootstrap-servers", self.bootstrap_servers, "--topic", self.topic, "--output", str(self.output)]
        return [*place, "--checkpoint", str(self.folder / "checkpoint"), *self.words, *more]

    def options(self, *more: str) -> argparse.Namespace:
        return rollup.make_parser().parse_args(self.all_words(*more))

    def once(self, *more: str) -> int:
        return rollup.run(self.spark, self.options("--once", *more))

    def send(self, events: list[Event], *others: Record) -> None:
        produce(self.bootstrap_servers, self.topic, [event.record(n % 2) for n, event in enumerate(events)] + [*others])

    def rows(self) -> list[dict[str, Any]]:
        """As any reader of Parquet finds them: all files, whatever their names."""
        seconds = ", ".join(f"epoch({name})::BIGINT AS {name}" for name in ("window_start", "window_end"))
        found = duckdb.sql(f"SELECT * REPLACE ({seconds}) FROM read_parquet('{self.output}/**/*.parquet')")
        assert found is not None
        return by_window(dict(zip(found.columns, row)) for row in found.fetchall())


def events(seconds: range, seed: int) -> list[Event]:
    """Three users, out of order by up to 20 seconds, some without an amount."""
    chance = random.Random(seed)
    made = [
        Event(chance.choice("abc"), second, chance.choice([None, *range(100)]), chance.choice(["tea", "milk", "salt"]))
        for second in seconds
    ]
    return sorted(made, key=lambda event: event.second + chance.uniform(0, 20))


def test_windows_are_those_that_plain_python_computes(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path, capfd: Any
) -> None:
    topic, windows, letters = new_topic(2), new_topic(2), new_topic(1)
    words = ("--window", "1m", "--watermark", "10s", "--output-topic", windows, "--dead-letter-topic", letters)
    job = Job(spark, broker, topic, tmp_path, *words)
    expected = Expected(watermark=10, length=60)

    first = events(range(0, 300), seed=1)
    job.send(first, CORRUPT, Record(value=b"[1]"), Record(value=b'{"at": "soon"}'))
    assert job.once() == 0
    expected.batch(first)
    assert job.rows() == by_window(expected.given_out)
    assert "3 dead letters" in capfd.readouterr().err

    # As if it had died behind the output and before Spark's own commit: the same batch runs again.
    sent = len(read(broker.bootstrap_servers, windows))
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    late = [Event("a", 10, 5), Event("b", 239, 5), Event("c", 241, 5)]
    second = events(range(300, 400), seed=2) + late
    job.send(second, CORRUPT)
    assert job.once() == 0
    expected.batch(second)
    assert job.rows() == by_window(expected.given_out)
    assert expected.late == 2
    said = capfd.readouterr().err
    assert "2 late, 1 dead letter" in said
    assert "windows are still open (watermark 2025-11-16T12:06:" in said

    given = [json.loads(record.value or b"") for record in read(broker.bootstrap_servers, windows)]
    assert len(given) == len({(each["user"], each["window_start"]) for each in given}) == len(expected.given_out) > sent
    assert by_window([_numbers(each) for each in given]) == [_without_nulls(row) for row in job.rows()]
    check_dead_letters(read(broker.bootstrap_servers, letters), topic)

    with pytest.raises(Failure, match="--window was 60s, now 120s"):
        job.once("--window", "2m")


def check_dead_letters(letters: list[Record], topic: str) -> None:
    assert len(letters) == 4
    corrupt = next(letter for letter in letters if letter.key == CORRUPT.key)
    assert corrupt.value == CORRUPT.value
    headers = dict(corrupt.headers)
    assert headers.pop("trace") == b"1"
    assert headers.pop("dead-letter.offset") in (b"150", b"202")
    assert headers == {
        "dead-letter.reason": b"the value is not JSON",
        "dead-letter.topic": topic.encode(),
        "dead-letter.partition": b"1",
    }


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: int(datetime.fromisoformat(row[name]).timestamp()) for name in ("window_start", "window_end")}
    return {**row, **times}


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (("--window", "40s", "--slide", "15s"), {"length": 40, "slide": 15}),  # no multiple: 2 or 3 windows for each
        (("--session", "7s"), {"gap": 7}),
    ],
)
def test_late_events_of_sliding_windows_and_sessions(
    spark: SparkSession,
    broker: BrokerProcess,
    new_topic: Callable[..., str],
    tmp_path: Path,
    capfd: Any,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    rules: dict[str, int],
) -> None:
    looked: list[int] = []
    handle = DeadLetters.handle

    def counted(*given: Any) -> Unused:
        looked.append(1)
        return handle(*given)

    monkeypatch.setattr(DeadLetters, "handle", counted)
    job = Job(spark, broker, new_topic(2), tmp_path, *words, "--watermark", "5s")
    expected = Expected(watermark=5, **rules)
    for batch in (events(range(0, 200, 2), seed=3), events(range(150, 300, 3), seed=4)):
        job.send(batch)
        assert job.once() == 0
        expected.batch(batch)
    assert job.rows() == by_window(expected.given_out)
    assert expected.late > 3
    assert len(looked) == 1, "nothing is looked for in a batch without late or bad records"
    said = capfd.readouterr().err
    assert f"{expected.late} late" in said
    assert (f"{expected.partly_late} partly late" in said) == ("--slide" in words)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([], "0 out"),
        ([CORRUPT], "1 dead letter"),
        ([Event("a", 5, 1).record(0)], "1 late"),
        ([Event("a", 5, 1).record(0), CORRUPT], "1 late, 1 dead letter"),
    ],
)
def test_a_topic_is_read_once_whatever_is_in_it(
    spark: SparkSession, gated_broker: GatedBroker, tmp_path: Path, capfd: Any, others: list[Record], said: str
) -> None:
    for name, partitions in (("events", 2), ("letters", 1)):
        create_topic(gated_broker.bootstrap_servers, name, partitions, {})
    words = ("--window", "10s", "--watermark", "0s", "--dead-letter-topic", "letters", "--dead-letter-late")
    job = Job(spark, gated_broker, "events", tmp_path, *words)
    job.send([Event("a", second, 1) for second in range(30)])
    assert job.once() == 0
    capfd.readouterr()

    large = [Event("a", 25, n).record(n % 2)._replace(key=bytes(10_000)) for n in range(200)]
    produce(gated_broker.bootstrap_servers, "events", [*large, *others])
    received_bytes = gated_broker.gate.received_bytes
    assert job.once() == 0
    assert said in capfd.readouterr().err
    assert len(read(gated_broker.bootstrap_servers, "letters")) == len(others)
    assert 1 <= (gated_broker.gate.received_bytes - received_bytes) / 2_000_000 < 1.5


def test_a_job_that_is_killed_loses_no_window_and_gives_none_out_twice(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    job = Job(spark, broker, new_topic(2), tmp_path, "--window", "10s", "--watermark", "0s")
    sent = [Event("abc"[n % 3], n, n % 7) for n in range(300)]
    job.send(sent)
    words = job.all_words("--every", "10ms", "--max-offsets-per-trigger", "100")
    with running_job(tmp_path / "job", "pipeline", "rollup", *words) as process:
        process.wait_until(lambda: len(list(job.output.glob("*.parquet"))) >= 1)
        process.kill()
    assert job.once("--max-offsets-per-trigger", "100") == 0
    expected = Expected(watermark=0, length=10)
    expected.batch(sent)
    assert job.rows() == by_window(expected.given_out)
    assert not list(tmp_path.glob(".out.rollup.staging/*"))


def test_a_batch_that_a_dead_run_has_given_out_is_counted_by_the_run_that_finishes_it(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path, capfd: Any
) -> None:
    letters = new_topic(1)
    words = ("--window", "10s", "--watermark", "0s", "--max-offsets-per-trigger", "20", "--dead-letter-topic", letters)
    job = Job(spark, broker, new_topic(1), tmp_path, *words)
    last = [Event("a", second, 1) for second in (*range(40, 57), 1, 2)]  # two are late
    sent = [Event("a", second, 1) for second in range(40)] + last
    produce(broker.bootstrap_servers, job.topic, [*(event.record(0) for event in sent), CORRUPT._replace(partition=0)])
    assert job.once() == 0
    assert "2 late, 1 dead letter" in capfd.readouterr().err
    given_out = job.rows()

    # As if it had died in the third batch, behind the output: the fourth, without events, was not there yet.
    for name in ("offsets/3", "commits/3", "commits/2"):
        path = tmp_path / "checkpoint" / name
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink()
    for path in job.output.glob("batch-0000000003*"):
        path.unlink()
    assert job.once() == 0
    assert "2 late, 1 dead letter" in capfd.readouterr().err
    assert job.rows() == given_out
    assert len(read(broker.bootstrap_servers, letters)) == 1


def test_a_checkpoint_that_is_older_than_the_output_is_refused_before_windows_are_lost(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    job = Job(spark, broker, new_topic(2), tmp_path, "--window", "10s", "--watermark", "0s")
    expected = Expected(watermark=0, length=10)
    sent = [[Event("a", second, 1) for second in range(start, start + 30)] for start in (0, 30, 60)]
    for batch in sent[:2]:
        job.send(batch)
        assert job.once() == 0
        expected.batch(batch)
    assert job.rows() == by_window(expected.given_out)
    for path in [*(tmp_path / "checkpoint").glob("*/[23]"), *(tmp_path / "checkpoint").glob("*/.[23].crc")]:
        path.unlink()
    job.send(sent[2])
    for words in (["--dry-run"], []):
        with pytest.raises(Failure, match="ends with batch 1: put back the newer checkpoint, or remove the files"):
            job.once(*words)

    for path in job.output.glob("batch-0000000003*"):
        path.unlink()
    assert job.once() == 0
    expected.batch(sent[2])
    assert job.rows() == by_window(expected.given_out)


def test_a_dry_run_tells_the_plan_and_changes_nothing(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path, capsys: Any
) -> None:
    job = Job(spark, broker, new_topic(2), tmp_path, "--window", "1m")
    job.send([Event("a", 1, 1)])
    assert job.once("--dry-run") == 0
    plan = capsys.readouterr().out
    assert "1 offset\n" in plan
    assert "window_start, window_end, user, count, amount_count" in plan
    assert list(tmp_path.iterdir()) == []

    job.output.mkdir()
    (job.output / "batch-0000000000.parquet").touch()
    with pytest.raises(Failure, match="Parquet files of something else"):
        job.once("--dry-run")
    (job.output / "_archive").mkdir()
    with pytest.raises(Failure, match="is the output of archive: give rollup an --output of its own"):
        job.once("--dry-run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output-topic", "nowhere"], "there is no topic nowhere: create it"),
        (["--key-field", "whole=user"], "user is asked for, and so are fields inside it"),
        (["--key-field", "mine=AMOUNT"], "AMOUNT and amount differ in case only"),
        (["--key-field", "amount_sum"], "two columns would be called amount_sum"),
        (["--slide", "2m"], "--slide needs a --window that is at least as long"),
        (["--dead-letter-late"], "give --dead-letter-topic"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_read(
    spark: SparkSession,
    broker: BrokerProcess,
    new_topic: Callable[..., str],
    tmp_path: Path,
    words: list[str],
    said: str,
) -> None:
    with pytest.raises(Failure, match=said):
        Job(spark, broker, new_topic(1), tmp_path, "--window", "1m").once(*words)
    assert list(tmp_path.iterdir()) == [], "a checkpoint would hold the wrong options"
