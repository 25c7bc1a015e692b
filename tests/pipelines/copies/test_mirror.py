"""Topics copied from one broker to another by the real job; `test_mirror_deaths.py` has the kills."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
)
from pyspark.sql import SparkSession

from barnabas.pipelines import mirror
from barnabas.pipelines.copies.chunk_progress import ChunkProgress
from barnabas.pipelines.copies.mirror_topics import Names
from barnabas.pipelines.copies.write_state import StateLog
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import open_folder
from tests.pipelines.records import Record, create_topic, delete_topic, produce, read
from tests.processes.broker_process import BrokerProcess

SHAPES = [
    Record(b"key", b"value"),
    Record(None, b"no key", partition=1),
    Record(b"key", None),
    Record(b"", b""),
    Record(None, None, partition=1),
    Record(b"key", b"headers", (("a", b"1"), ("b", None), ("a", b"\xff\x00"), ("", b""))),
    Record(b"\x00\xff", bytes(3000)),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"auto.create.topics.enable": "false"}
    with BrokerProcess(tmp_path_factory.mktemp("target") / "data", settings=settings) as process:
        yield process


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is dying here whose last requests could be on their way."""
    monkeypatch.setattr("barnabas.pipelines.copies.recovery.SETTLED_S", 0.05)


class Mirroring:
    """The job between two brokers, always with the same checkpoint."""

    def __init__(self, spark: SparkSession, source: str, target: str, folder: Path) -> None:
        self.spark = spark
        self.source = source
        self.target = target
        self.checkpoint = folder / "checkpoint"

    def run(self, *words: str) -> None:
        clusters = ["--bootstrap-servers", self.source, "--target-bootstrap-servers", self.target]
        given = [*clusters, "--checkpoint", str(self.checkpoint), "--once", *words]
        assert mirror.run(self.spark, mirror.make_parser().parse_args(given)) == 0

    def fails(self, *words: str) -> str:
        with pytest.raises(Failure) as failure:
            self.run(*words)
        return str(failure.value)

    def forget_last_state(self) -> None:
        """As a kill leaves it between the last acknowledgement and the note of it."""
        max((self.checkpoint / "state").glob("*.json")).unlink()

    def copied(self, topic: str, name: str | None = None) -> None:
        """Every record of the topic is there once, at the same place."""
        assert without_time(read(self.target, name or topic)) == without_time(read(self.source, topic))


@pytest.fixture
def mirroring(spark: SparkSession, broker: BrokerProcess, target: BrokerProcess, tmp_path: Path) -> Mirroring:
    return Mirroring(spark, broker.bootstrap_servers, target.bootstrap_servers, tmp_path)


def without_time(records: list[Record]) -> list[Record]:
    return [record._replace(timestamp_ms=None) for record in records]


def numbered(count: int, start: int = 0, partition: int = 0) -> list[Record]:
    return [Record(b"%d" % (number % 7), b"%d" % number, partition=partition) for number in range(start, start + count)]


def topic_configs(bootstrap: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = admin.describe_configs([resource])[resource].result(20)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value  # a cluster has defaults of its own
    return {name: entry.value for name, entry in entries.items() if entry.source == own}


def test_records_topics_and_configs_arrive_as_they_are_and_what_is_added_follows(
    mirroring: Mirroring, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = ("--topic-pattern", "shapes-.*", "--prefix", "eu.", "--rename", "shapes-b=shapes.b")
    configs = {"retention.ms": "777777", "segment.bytes": "1048576", "min.insync.replicas": "1"}
    create_topic(mirroring.source, "shapes-a", 2, configs)
    create_topic(mirroring.source, "shapes-b")
    produce(mirroring.source, "shapes-a", SHAPES)
    produce(mirroring.source, "shapes-b", numbered(50))

    mirroring.run(*pattern, "--dry-run")
    plan = capsys.readouterr().out
    assert "shapes-a → eu.shapes-a: 2 partitions, 7 offsets to copy, will be created with retention.ms=777777" in plan
    assert "shapes-b → shapes.b: 1 partition, 50 offsets to copy, will be created" in plan
    assert not mirroring.checkpoint.exists()

    mirroring.run(*pattern)
    mirroring.copied("shapes-a", "eu.shapes-a")
    mirroring.copied("shapes-b", "shapes.b")
    there = topic_configs(mirroring.target, "eu.shapes-a")
    assert there == {"retention.ms": "777777", "segment.bytes": "1048576"}  # replicas are the target's affair
    assert "57 rows in, 57 out" in capsys.readouterr().err

    admin = AdminClient({"bootstrap.servers": mirroring.source})
    admin.create_partitions([NewPartitions("shapes-b", 3)])["shapes-b"].result(20)
    create_topic(mirroring.source, "shapes-c")
    produce(mirroring.source, "shapes-b", [*numbered(10, 50), *numbered(20, 60, partition=2)])
    produce(mirroring.source, "shapes-c", numbered(5))
    mirroring.run(*pattern, "--max-offsets-per-trigger", "20")
    mirroring.copied("shapes-a", "eu.shapes-a")
    mirroring.copied("shapes-b", "shapes.b")
    mirroring.copied("shapes-c", "eu.shapes-c")
    assert "35 rows in, 35 out" in capsys.readouterr().err


def test_what_was_written_but_not_noted_is_found_and_nobody_else_may_write(mirroring: Mirroring) -> None:
    create_topic(mirroring.source, "noted", 2)
    produce(mirroring.source, "noted", [*numbered(100), *numbered(30, partition=1)])
    mirroring.run("--topic", "noted", "--timeout", "20s")  # less than a request may take by Kafka's default
    mirroring.forget_last_state()
    produce(mirroring.source, "noted", [*numbered(40, 100), *numbered(3, 30, partition=1)])
    mirroring.run("--topic", "noted", "--dry-run")
    mirroring.run("--topic", "noted")
    mirroring.copied("noted")

    mirroring.forget_last_state()
    produce(mirroring.target, "noted", [Record(b"stranger", b"between", partition=1)])
    assert "offset 33 of noted-1" in mirroring.fails("--topic", "noted")
    shutil.rmtree(mirroring.checkpoint)
    assert "offset 33 of noted-1" in mirroring.fails("--topic", "noted", "--adopt")


def test_a_stranger_at_the_target_stops_the_mirror_and_the_topic_can_be_started_over(mirroring: Mirroring) -> None:
    for name in ("shared", "quiet"):
        create_topic(mirroring.source, name)
        produce(mirroring.source, name, numbered(10))
    words = ("--topic", "shared,quiet")
    mirroring.run(*words)
    produce(mirroring.target, "shared", [Record(b"stranger", b"hello")])
    produce(mirroring.source, "shared", numbered(1, 10))
    told = mirroring.fails(*words)
    assert "shared-0" in told
    assert "1 more records than this job wrote" in told
    assert "--start-over shared" in told
    assert mirroring.fails(*words, "--dry-run") == told

    delete_topic(mirroring.target, "shared")
    assert "shared was deleted at the target" in mirroring.fails(*words)
    produce(mirroring.source, "quiet", numbered(5, 10))
    mirroring.run(*words, "--start-over", "shared")
    mirroring.copied("shared")
    mirroring.copied("quiet")


def test_latest_is_decided_once_and_what_comes_later_or_is_started_over_is_copied_whole(mirroring: Mirroring) -> None:
    latest = ("--topic-pattern", "decided-.*", "--starting-offsets", "latest")
    create_topic(mirroring.source, "decided-a")
    produce(mirroring.source, "decided-a", numbered(5))
    mirroring.run(*latest)
    produce(mirroring.source, "decided-a", numbered(2, 5))
    mirroring.run(*latest)
    assert [record.value for record in read(mirroring.target, "decided-a")] == [b"5", b"6"]
    delete_topic(mirroring.target, "decided-a")
    mirroring.run(*latest, "--start-over", "decided-a")
    mirroring.copied("decided-a")


def test_a_first_run_that_finds_no_topic_is_the_first_all_the_same(mirroring: Mirroring) -> None:
    latest = ("--topic-pattern", "later-.*", "--starting-offsets", "latest")
    mirroring.run(*latest)
    create_topic(mirroring.source, "later-a")
    produce(mirroring.source, "later-a", numbered(5))
    mirroring.run(*latest)
    mirroring.copied("later-a")


def test_a_source_topic_that_was_made_again_stops_the_mirror(mirroring: Mirroring) -> None:
    create_topic(mirroring.source, "again")
    produce(mirroring.source, "again", numbered(10))
    mirroring.run("--topic", "again")
    delete_topic(mirroring.source, "again")
    assert "has no topic again" in mirroring.fails("--topic", "again")
    create_topic(mirroring.source, "again")
    produce(mirroring.source, "again", numbered(20))
    told = mirroring.fails("--topic", "again")
    assert "again was deleted at the source and created again" in told
    assert "--start-over again" in told
    assert len(read(mirroring.target, "again")) == 10
    mirroring.run("--topic", "again", "--start-over", "again", "--rename", "again=again.2")
    mirroring.copied("again", "again.2")


def test_a_topic_of_a_pattern_that_is_deleted_is_no_longer_copied(
    mirroring: Mirroring, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DeletesOne(ChunkProgress):
        def chunk_done(self, *figures: Any) -> None:
            super().chunk_done(*figures)
            if deleted:
                delete_topic(mirroring.source, deleted.pop())

    deleted = ["fading-b"]
    monkeypatch.setattr(mirror, "ChunkProgress", DeletesOne)
    words = ("--topic-pattern", "fading-.*", "--max-offsets-per-trigger", "20")
    for name in ("fading-a", "fading-b", "fading-c"):
        create_topic(mirroring.source, name)
        produce(mirroring.source, name, numbered(20))
    mirroring.run(*words)
    mirroring.copied("fading-a")
    assert len(read(mirroring.target, "fading-b")) == 6  # its share of the first chunk

    produce(mirroring.source, "fading-a", numbered(5, 20))
    produce(mirroring.source, "fading-c", numbered(5, 20))
    mirroring.run(*words)
    mirroring.forget_last_state()
    assert "not one of the topics to copy" in mirroring.fails("--topic-pattern", "fading-a")
    delete_topic(mirroring.source, "fading-c")
    mirroring.run(*words)
    mirroring.copied("fading-a")


def test_an_old_or_a_lost_checkpoint_is_refused_and_can_be_made_good(mirroring: Mirroring, tmp_path: Path) -> None:
    create_topic(mirroring.source, "lost", 2)
    produce(mirroring.source, "lost", [*numbered(10), *numbered(5, partition=1)])
    mirroring.run("--topic", "lost")
    shutil.copytree(mirroring.checkpoint, tmp_path / "old")
    produce(mirroring.source, "lost", numbered(10, 10))
    mirroring.run("--topic", "lost")

    shutil.rmtree(mirroring.checkpoint)
    (tmp_path / "old").rename(mirroring.checkpoint)
    produce(mirroring.source, "lost", numbered(3, 20))
    assert "is an old copy" in mirroring.fails("--topic", "lost")
    mirroring.run("--topic", "lost", "--adopt")
    mirroring.copied("lost")

    shutil.rmtree(mirroring.checkpoint)
    produce(mirroring.source, "lost", numbered(2, 23))
    assert "holds records that this job did not write" in mirroring.fails("--topic", "lost")
    mirroring.run("--topic", "lost", "--adopt")
    mirroring.copied("lost")


def test_records_deleted_before_they_were_copied_are_told_and_can_be_left_out(
    mirroring: Mirroring, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(mirroring.source, "short")
    produce(mirroring.source, "short", [record._replace(timestamp_ms=1_700_000_000_000) for record in numbered(10)])
    words = ("--topic", "short", "--timestamp-header", "time")
    mirroring.run(*words, "--starting-offsets", '{"short": {"0": 2}}')
    produce(mirroring.source, "short", numbered(10, 10))
    admin = AdminClient({"bootstrap.servers": mirroring.source})
    (deleted,) = admin.delete_records([TopicPartition("short", 0, 15)]).values()
    deleted.result(20)
    told = mirroring.fails(*words)
    assert "has lost offsets 10 to 14 before they were copied" in told
    assert "--fail-on-data-loss false" in told
    mirroring.run(*words, "--fail-on-data-loss", "false")
    assert "5 offsets lost" in capsys.readouterr().err
    copied = read(mirroring.target, "short")
    assert [int(record.value or b"") for record in copied] == [*range(2, 10), *range(15, 20)]
    assert copied[0].headers == (("time", b"1700000000000"),)


def test_what_the_target_would_refuse_is_told_before_it_is_sent(mirroring: Mirroring) -> None:
    create_topic(mirroring.source, "large", 1, {"max.message.bytes": "5000"})
    produce(mirroring.source, "large", [*numbered(20), Record(b"large", bytes(3000)), *numbered(20, 20)])
    told = mirroring.fails("--topic", "large", "--topic-config", "max.message.bytes=2000")
    assert "large-0 cannot take the record of offset 20: it has 3075 bytes, max.message.bytes is 2000" in told
    assert len(read(mirroring.target, "large")) == 20
    enough = ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "large", incremental_configs=[enough])
    admin = AdminClient({"bootstrap.servers": mirroring.target})
    admin.incremental_alter_configs([resource])[resource].result(20)
    mirroring.run("--topic", "large")
    mirroring.copied("large")

    create_topic(mirroring.source, "exact", 1, {"max.message.bytes": "5000"})
    largest = Record(b"exact", random.Random(1).randbytes(4922), (("h", None),))
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        produce(mirroring.source, "exact", [largest._replace(value=bytes(4923))])
    produce(mirroring.source, "exact", [largest])
    told = mirroring.fails("--topic", "exact")
    assert "exact-0 cannot take the record of offset 0: it has 5000 bytes of 5000, and compression may add to" in told
    mirroring.run("--topic", "exact", "--target-kafka", "compression.type=none")
    mirroring.copied("exact")

    create_topic(mirroring.source, "keyless")
    produce(mirroring.source, "keyless", [Record(None, b"value")])
    told = mirroring.fails("--topic", "keyless", "--topic-config", "cleanup.policy=compact")
    assert "it has no key, and the topic is compacted" in told


def test_a_task_that_spark_begins_again_writes_nothing(mirroring: Mirroring, monkeypatch: pytest.MonkeyPatch) -> None:
    # The threads of a session without retries are all named after first attempts: look for second ones instead.
    monkeypatch.setattr("barnabas.pipelines.copies.ordered_sink.FIRST_ATTEMPT", r"task \d+\.1 in stage \d+\.0 \(TID")
    create_topic(mirroring.source, "attempts")
    produce(mirroring.source, "attempts", numbered(3))
    assert "Spark started a task again" in mirroring.fails("--topic", "attempts")
    assert read(mirroring.target, "attempts") == []


def test_what_makes_no_sense_is_refused_before_anything_is_done(mirroring: Mirroring, spark: SparkSession) -> None:
    create_topic(mirroring.source, "sense")
    assert "has no topic nonsense" in mirroring.fails("--topic", "sense,nonsense")
    assert "acks must be all" in mirroring.fails("--topic", "sense", "--target-kafka", "acks=1")
    assert "would both be called sense" in mirroring.fails("--topic-pattern", "sense|short", "--rename", "short=sense")
    assert "not a valid name" in mirroring.fails("--topic", "sense", "--prefix", "a/")
    loop = Mirroring(spark, mirroring.source, mirroring.source, mirroring.checkpoint.parent)
    assert "the same cluster" in loop.fails("--topic-pattern", ".*sense", "--prefix", "copy.")
    with StateLog(open_folder(spark, str(mirroring.checkpoint))).held():
        assert "another run uses the checkpoint" in mirroring.fails("--topic", "sense")
    produce(mirroring.source, "sense", numbered(1))
    mirroring.run("--topic", "sense")
    assert "belongs to another job or other clusters" in loop.fails("--topic", "sense")


def test_names_at_the_target() -> None:
    names = Names("eu.", {"b": "x"})
    assert names.by_target(["a", "b"]) == {"eu.a": "a", "x": "b"}
