"""Topics to Parquet with real Spark and a real broker: what is in the files, and what stops the job."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from barnabas.pipelines import archive
from barnabas.pipelines.parquet.archive_log import ArchiveLog
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import LocalFolder
from tests.pipelines.archives import Seen, once_each, seen_by_duckdb, seen_by_pyarrow
from tests.pipelines.records import Record, create_topic, delete_topic, produce, read
from tests.pipelines.running import DEADLINE_S, Running, running
from tests.processes.broker_process import BrokerProcess

HOUR_MS = 3_600_000
NOON_MS = 1_763_294_400_000  # 2025-11-16T12:00:00Z


class Job:
    """The archive job on the shared session."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, output: Path) -> None:
        self.spark = spark
        self.bootstrap_servers = broker.bootstrap_servers
        self.output = output

    def once(self, *words: str) -> int:
        return archive.run(self.spark, archive.make_parser().parse_args([*self._common(), "--once", *words]))

    def running(self, *words: str) -> AbstractContextManager[Running]:
        return running(self.spark, archive, *self._common(), "--every", "50ms", *words)

    def log(self) -> ArchiveLog:
        return ArchiveLog(LocalFolder(str(self.output)))

    def _common(self) -> list[str]:
        return ["--bootstrap-servers", self.bootstrap_servers, "--output", str(self.output)]


@pytest.fixture
def job(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Job:
    return Job(spark, broker, tmp_path / "out")


def some(count: int, partition: int = 0) -> list[Record]:
    return [Record(b"key-%d" % number, b"value", partition=partition) for number in range(count)]


def all_of(topic: str, counts: dict[int, int]) -> Seen:
    return once_each((topic, partition, offset) for partition, count in counts.items() for offset in range(count))


def seen_by_spark(spark: SparkSession, output: Path) -> Seen:
    return Counter(map(tuple, spark.read.parquet(str(output)).select("topic", "partition", "offset").collect()))


def test_every_column_of_every_record_is_kept_for_any_reader(job: Job, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, retention_ms="-1")  # the records are old
    stamped = new_topic(1, message_timestamp_type="LogAppendTime")
    produce(
        job.bootstrap_servers,
        topic,
        [
            Record(b"key", b"value", (("h", b"1"), ("h", None), ("", b"")), NOON_MS, 0),
            Record(None, b"", (), NOON_MS + HOUR_MS, 0),
            Record(b"", None, (), NOON_MS + 12 * HOUR_MS, 0),
            Record(b"\xff\x00", b"late, of an hour that was there already", (), NOON_MS, 0),
            Record(b"other", b"partition", (), NOON_MS, 1),
        ],
    )
    produce(job.bootstrap_servers, stamped, some(3))
    words = ("--topic", f"{topic},{stamped}", "--partition-by", "hour", "--compression", "gzip")

    assert job.once("--dry-run", *words) == 0
    assert not job.output.parent.joinpath("out").exists()
    assert not job.output.parent.joinpath(".out.archive.staging").exists()
    assert job.once(*words) == 0

    found = dataset.dataset(job.output, partitioning="hive").to_table().to_pylist()
    for name in (topic, stamped):
        archived = [as_record(row) for row in found if row["topic"] == name]
        assert sorted(archived, key=lambda record: (record.partition, record.offset)) == read(
            job.bootstrap_servers, name
        )
    assert {row["topic"]: row["timestampType"] for row in found} == {topic: 0, stamped: 1}
    everything = all_of(topic, {0: 4, 1: 1}) + all_of(stamped, {0: 3})
    assert seen_by_pyarrow(job.output) == seen_by_duckdb(job.output) == everything
    assert seen_by_spark(job.spark, job.output) == everything

    folder = job.output / f"topic={topic}" / "date=2025-11-16" / "hour=12"
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}-{0:020}.parquet" for number in (0, 1)]
    first = parquet.read_table(folder / f"0-{0:020}.parquet", partitioning=None)
    assert first["offset"].to_pylist() == [0, 3]
    assert parquet.read_metadata(folder / f"0-{0:020}.parquet").row_group(0).column(0).compression == "GZIP"

    (commit,) = job.log().commits()
    assert {file.path for file in commit.files} == {
        str(path.relative_to(job.output)) for path in job.output.rglob("*.parquet")
    }
    assert commit.ranges()[topic, 0] == (0, 3, 4, 4)


def as_record(row: dict[str, Any]) -> Record:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    timestamp_ms = round(row["timestamp"].timestamp() * 1000)
    return Record(row["key"], row["value"], headers, timestamp_ms, row["partition"], row["offset"])


def test_new_topics_and_partitions_are_followed_and_a_topic_made_again_stops_the_job(
    job: Job, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(1)
    second = f"{topic}-second"
    admin = AdminClient({"bootstrap.servers": job.bootstrap_servers})
    produce(job.bootstrap_servers, topic, some(5))
    with job.running("--topic-pattern", f"{topic}.*") as under_way:
        under_way.until(lambda: seen_by_pyarrow(job.output) == all_of(topic, {0: 5}))
        (checkpoint,) = (tmp_path / ".out.archive.staging").glob("*/checkpoint")
        shutil.copytree(checkpoint, tmp_path / "old")

        create_topic(job.bootstrap_servers, second, 1)
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(DEADLINE_S)
        produce(job.bootstrap_servers, topic, some(3, partition=1))
        produce(job.bootstrap_servers, second, some(2))
        everything = all_of(topic, {0: 5, 1: 3}) + all_of(second, {0: 2})
        under_way.until(lambda: seen_by_pyarrow(job.output) == everything)

        delete_topic(job.bootstrap_servers, second)
        create_topic(job.bootstrap_servers, second, 1)
        produce(job.bootstrap_servers, second, some(10))
        assert f"topic {second} was deleted and created again" in under_way.failure()
    assert seen_by_duckdb(job.output) == everything
    with pytest.raises(Failure, match="give the new topic another --output"):
        job.once("--dry-run", "--topic", second)

    # The position is the archive's own: a checkpoint of an earlier time changes nothing, another's is not touched.
    produce(job.bootstrap_servers, topic, some(1))
    assert job.once("--topic", topic, "--checkpoint", str(tmp_path / "old")) == 0
    assert seen_by_duckdb(job.output) == everything + all_of(topic, {0: 6}) - all_of(topic, {0: 5})
    other = tmp_path / "other"
    (other / "offsets").mkdir(parents=True)
    (other / "offsets" / "0").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"{second}":{{"0":10}}}}')
    with pytest.raises(Failure, match="a --checkpoint of its own"):
        job.once("--topic", topic, "--checkpoint", str(other))
    assert (other / "offsets" / "0").exists()


@pytest.mark.parametrize("fail", [True, False])
def test_when_retention_overtakes_the_job(fail: bool, job: Job, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    for _ in range(8):
        produce(job.bootstrap_servers, topic, some(5))
    # Batch by batch, or the consumer would have everything before it is deleted.
    words = ["--topic", topic, "--max-offsets-per-trigger", "5", "--kafka", "max.partition.fetch.bytes=1"]
    words += ("--fail-on-data-loss", str(fail).lower())
    admin = AdminClient({"bootstrap.servers": job.bootstrap_servers})
    with job.running(*words) as under_way:
        under_way.until(lambda: seen_by_pyarrow(job.output))
        (deleted,) = admin.delete_records([TopicPartition(topic, 0, 38)]).values()
        deleted.result(DEADLINE_S)
        if fail:
            failure = under_way.failure()
        else:
            under_way.until(lambda: (topic, 0, 39) in seen_by_pyarrow(job.output))
    latest = job.log().latest()
    assert latest is not None
    state = latest.state
    read = state.records - 2 * (not fail)  # up to where the job was; of the rest, two records are left
    gone = all_of(topic, {0: 38}) - all_of(topic, {0: read})
    if fail:
        assert re.search(rf"{len(gone)} offsets were deleted .* {read} to 37\): .* --fail-on-data-loss false", failure)
        assert seen_by_duckdb(job.output) == all_of(topic, {0: read})
    else:
        assert state.lost == len(gone) > 0
        assert seen_by_duckdb(job.output) == all_of(topic, {0: 40}) - gone


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--topic", "nowhere"), "there is no topic nowhere"),
        (("--topic", "nowhere", "--output", "/tmp/a*b"), "Spark would read this as a pattern"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(words: tuple[str, ...], said: str, job: Job) -> None:
    with pytest.raises(Failure, match=said):
        job.once(*words)
    assert job.log().latest() is None
    assert not job.output.exists()


def test_a_folder_that_was_there_stays_when_a_run_fails_before_it_begins(job: Job) -> None:
    job.output.mkdir()
    with pytest.raises(Failure, match="there is no topic nowhere"):
        job.once("--topic", "nowhere")
    assert list(job.output.iterdir()) == []
