"""Audits of real topics and archives in which something is wrong, and of such in which nothing is."""

import argparse
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from pyspark.sql import SparkSession

from barnabas.pipelines import archive, audit
from barnabas.pipelines.audits.records import ARCHIVE_COLUMNS, Side, topic_side
from barnabas.pipelines.parquet.archive_log import ArchiveLog
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import LocalFolder
from barnabas.pipelines.shared.kafka_rows import read_rows
from barnabas.pipelines.shared.position import TopicState
from tests.pipelines.records import TIMEOUT_S, Record, create_topic, produce, read
from tests.processes.broker_process import BrokerProcess

NOON_MS = 1_763_294_400_000  # 2025-11-16T12:00:00Z

Found = dict[str, dict[str, Any]]


class Audit:
    """An audit on the shared session, and what it wrote as JSON."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, folder: Path) -> None:
        self.spark, self.bootstrap_servers = spark, bootstrap_servers
        self.json, self.html = folder / "audit.json", folder / "audit.html"

    def options(self, *words: str) -> argparse.Namespace:
        return audit.make_parser().parse_args(["--bootstrap-servers", self.bootstrap_servers, *words])

    def run(self, *words: str) -> int:
        return audit.run(self.spark, self.options("--json", str(self.json), "--html", str(self.html), *words))

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.json.read_text())
        return report

    def found(self) -> Found:
        """Findings and notes by their title; a note begins with 'note: '."""
        return {("note: " if each["is_note"] else "") + each["title"]: each for each in self.report()["findings"]}


@pytest.fixture
def auditing(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Audit:
    return Audit(spark, broker.bootstrap_servers, tmp_path)


def record(n: int, **more: Any) -> Record:
    """Forty keys, each in its partition, a second apart."""
    key = n % 40
    value = json.dumps({"n": n, "seq": n // 40}).encode()
    given = {"timestamp_ms": NOON_MS + n * 1000, "partition": key % 2, "headers": (("n", b"%d" % n),), **more}
    return Record(b"key-%02d" % key, value, **given)


def test_everything_that_is_wrong_with_a_topic_and_its_copy_is_found_with_its_place(
    auditing: Audit, new_topic: Callable[..., str], capsys: Any
) -> None:
    topic, copy = new_topic(2), new_topic(2)
    records = [record(n) for n in range(400)]
    wrong = [
        records[41],  # sent again
        record(42, partition=1),  # a key that belongs to partition 0
        record(3, timestamp_ms=NOON_MS),  # older than the last of its key
        *[Record(None, b"tick", timestamp_ms=NOON_MS)] * 2,  # equal, but who knows
    ]
    produce(auditing.bootstrap_servers, topic, records + wrong)
    copied = records[:100] + records[101:] + wrong  # one is lost: all behind it have other offsets
    copied[200] = copied[200]._replace(value=b"changed")
    copied[300] = copied[300]._replace(headers=())
    copied[350] = copied[350]._replace(partition=1 - copied[350].partition)
    produce(auditing.bootstrap_servers, copy, copied)

    assert auditing.run("--topic", topic, "--copy-topic", copy) == audit.FOUND
    found = auditing.found()
    assert {title: each["count"] for title, each in found.items()} == {
        "records that repeat another": 1,
        "keys in more than one partition": 1,
        "timestamps of a key that go back": 2,  # the repeated one does as well
        "records that are not in the copy": 2,
        "records that are only in the copy": 1,
        "records in another partition of the copy": 1,
        "records with other headers in the copy": 1,
        "note: records without a key that equal another": 1,
        "note: records with another offset in the copy": 152,
    }
    [lost, changed] = found["records that are not in the copy"]["examples"]
    assert lost == {"partition": 0, "offset": 50, "key": "key-20"}
    assert changed["key"] == "key-01"
    assert found["keys in more than one partition"]["examples"] == [{"key": "key-02", "partitions": "0, 1"}]
    report = auditing.report()
    assert (report["ok"], report["records"], report["keys"], report["matched_by"][:6]) == (False, 405, 40, "by key")
    assert sum(each["records"] for each in report["intervals"]) + report["outside_intervals"] == 405
    said = capsys.readouterr().out
    assert "FOUND  records that are not in the copy: 2" in said
    assert said.endswith("7 findings in 405 records.\n")
    check_page(auditing.html.read_text())


def check_page(page: str) -> None:
    """Well-formed, with every plot, and nothing that a browser would have to fetch."""
    plots = [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page)]
    titles = ["Records over time", "Bytes over time", "Bytes over time, by partition", "Record sizes"]
    assert [plot.get("aria-label") for plot in plots] == [*titles, "Most frequent keys", "Bytes by partition"]
    assert not re.search(r"<script|https?://|url\(|@import|src=", page)


def test_an_archive_holds_each_offset_of_its_topic_once_unless_somebody_copies_a_file(
    auditing: Audit, spark: SparkSession, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, folder = new_topic(2), tmp_path / "archive"
    produce(auditing.bootstrap_servers, topic, [record(n) for n in range(100)])
    words = ["--bootstrap-servers", auditing.bootstrap_servers, "--topic", topic, "--output", str(folder), "--once"]
    assert archive.run(spark, archive.make_parser().parse_args(words)) == 0
    assert auditing.run("--topic", topic, "--copy-archive", str(folder)) == 0
    assert auditing.found() == {}

    alone = audit.make_parser().parse_args(["--topic", topic, "--archive", str(folder), "--checks", "gaps"])
    assert audit.run(spark, alone) == 0

    [first, second] = sorted(folder.glob(f"topic={topic}/**/*.parquet"))
    shutil.copy(first, first.with_name("again.parquet"))
    second.unlink()
    produce(auditing.bootstrap_servers, topic, [record(100)])
    assert auditing.run("--topic", topic, "--copy-archive", str(folder), "--checks", "gaps") == audit.FOUND
    assert {title: each["count"] for title, each in auditing.found().items()} == {
        "records at an offset that already has one": 50,
        "records at the end that are not in the copy": 51,
    }


def test_numbers_ids_and_a_range_of_time(auditing: Audit, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    without_one = [record(n) for n in range(200) if n != 90]
    produce(auditing.bootstrap_servers, topic, [*without_one[:150], record(149), *without_one[150:]])
    part = ("--since", "2025-11-16T12:00:40Z", "--until", str(NOON_MS + 180_000))
    words = ("--topic", topic, "--sequence-field", "seq", "--id-header", "n", *part)
    assert auditing.run(*words) == audit.FOUND
    found = auditing.found()
    assert {title: each["examples"][0]["key"] for title, each in found.items()} == {
        "records with a header n that an earlier record has": "key-29",
        "records that repeat the seq before them": "key-29",
        "records before which a seq is missing": "key-10",
    }
    assert auditing.report()["records"] == 140


def test_a_record_that_is_copied_while_the_audit_begins_is_not_only_in_the_copy(
    auditing: Audit, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, copy = new_topic(1), new_topic(1)

    def side_of_a_busy_topic(*given: Any) -> Side:
        side = topic_side(*given)
        for each in (topic, copy):
            produce(auditing.bootstrap_servers, each, [Record(b"k", b"v", (), NOON_MS)])
        return side

    monkeypatch.setattr(audit, "topic_side", side_of_a_busy_topic)
    assert auditing.run("--topic", topic, "--copy-topic", copy, "--match", "offsets") == audit.FOUND
    assert list(auditing.found()) == ["records at the end that are not in the copy"]


def test_the_gaps_of_a_compacted_topic_are_a_note(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    settings = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "50"}
    compaction = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        create_topic(broker.bootstrap_servers, "latest", 1, compaction)
        now_ms = round(time.time() * 1000)
        produce(broker.bootstrap_servers, "latest", [Record(key.encode(), b"v", (), now_ms) for key in "xayazaw"])
        produce(broker.bootstrap_servers, "latest", [Record(b"q", b"v", (), now_ms + 120_000)])
        deadline = time.monotonic() + TIMEOUT_S
        while len(read(broker.bootstrap_servers, "latest")) > 6:
            assert time.monotonic() < deadline, "the topic is not compacted"
            time.sleep(0.05)
        auditing = Audit(spark, broker.bootstrap_servers, tmp_path)
        assert auditing.run("--topic", "latest") == 0
        [note] = auditing.report()["findings"]
        # As if it had never been compacted: then somebody has lost them.
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "latest", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        assert auditing.run("--topic", "latest") == audit.FOUND
        lost = auditing.found()["offsets that are missing"]
    assert (lost["count"], lost["examples"]) == (2, note["examples"])
    assert (note["title"], note["count"]) == ("offsets without a record", 2)
    assert [(each["from_offset"], each["to_offset"]) for each in note["examples"]] == [(1, 1), (3, 3)]
    assert "cleanup.policy=compact" in capsys.readouterr().out


def test_a_range_of_time_is_the_same_offsets_of_an_archive_as_of_its_topic(
    auditing: Audit, spark: SparkSession, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, smaller = new_topic(3), new_topic(1)
    seconds = [0, 30, 10, 50, 20, 60, 40, 90, 5]  # 1 to 6 are the part: from the first at 25 or later to one at 80
    records = [Record(b"%d" % n, b"v", (), NOON_MS + 1000 * n) for n in seconds]
    early = [Record(b"early", b"v", (), NOON_MS + n, partition=1) for n in range(5)]
    produce(auditing.bootstrap_servers, topic, records + early)
    produce(auditing.bootstrap_servers, smaller, records)
    settings = {"kafka.bootstrap.servers": auditing.bootstrap_servers}
    rows = read_rows(spark, settings, {(topic, 0): range(9), (topic, 1): range(5)}, fail_on_data_loss=True)
    rows.select(*ARCHIVE_COLUMNS).write.parquet(str(tmp_path / "archive" / f"topic={topic}"))
    part = ("--since", str(NOON_MS + 25_000), "--until", str(NOON_MS + 80_000), "--checks", "gaps")
    sides = ("--topic", topic), ("--topic", topic, "--archive", str(tmp_path / "archive"))
    for words in sides:
        assert auditing.run(*words, "--copy-topic", topic, *part) == 0
        assert auditing.found() == {}
        spans = [
            (each["first_offset"], each["end_offset"], each["records"]) for each in auditing.report()["partitions"]
        ]
        assert spans[:2] == [(1, 7, 6), (5, 5, 0)]

    for words in sides:
        assert auditing.run(*words, "--copy-topic", smaller, *part) == audit.FOUND
        [title] = auditing.found()
        assert title.endswith("partitions, the copy 1")


def test_a_dry_run_says_what_would_be_read(auditing: Audit, new_topic: Callable[..., str], capsys: Any) -> None:
    topic = new_topic(3)
    produce(auditing.bootstrap_servers, topic, [record(n) for n in range(5)])
    assert auditing.run("--topic", topic, "--copy-topic", topic, "--dry-run") == 0
    assert capsys.readouterr().out.count("3 partitions, 5 offsets") == 2
    assert not auditing.json.exists()


def test_an_empty_topic_is_well_and_so_is_its_archive(
    auditing: Audit, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, folder = new_topic(1), tmp_path / "archive"
    nothing_yet = {topic: TopicState("id", {0: 0})}
    ArchiveLog(LocalFolder(str(folder))).append("run", None, (), nothing_yet, 0)
    for words in ((), ("--archive", str(folder)), ("--copy-archive", str(folder))):
        assert auditing.run("--topic", topic, *words) == 0
        assert (auditing.report()["records"], auditing.found()) == (0, {})
    with pytest.raises(Failure, match="holds no archive of another"):
        auditing.run("--topic", "another", "--archive", str(folder))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--topic", "nowhere"), "has no topic nowhere"),
        (("--topic", "nowhere", "--archive", "nothing"), "holds no archive of nowhere: name the --output"),
        (("--topic", "a", "--html", "no/such/page.html"), "no/such/page.html cannot be written"),
        (("--topic", "a", "--copy-topic", "b", "--copy-archive", "c"), "exclude each other"),
        (("--topic", "a", "--copy-topic", "b", "--match", "content", "--since", "0"), "compares whole topics only"),
    ],
)
def test_what_cannot_be_looked_at_is_said(auditing: Audit, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Failure, match=said):
        auditing.run(*words)
