"""Archives of the real archive job, written to topics again; `test_restore_deaths.py` has the kill."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines import archive, restore
from barnabas.pipelines.copies.copying import Chunk
from barnabas.pipelines.copies.exact_write import ExactWriter
from barnabas.pipelines.copies.restore_options import ALL, Part
from barnabas.pipelines.shared.failure import Failure
from tests.pipelines.records import Record, create_topic, delete_topic, produce, read
from tests.processes.broker_process import BrokerProcess

NOON_MS = 1_700_000_000_000 // 86_400_000 * 86_400_000 + 43_200_000
HOUR_MS = 3_600_000

# By partition and offset: (0, 0) to (0, 4) and (1, 0) to (1, 2), an hour apart.
SHAPES = [
    Record(b"key", b"value", (), NOON_MS, 0),
    Record(None, b"no key", (), NOON_MS + HOUR_MS, 0),
    Record(b"key", None, (("a", b"1"), ("b", None), ("a", b"\xff\x00"), ("", b"")), NOON_MS + 2 * HOUR_MS, 0),
    Record(b"", b"", (), NOON_MS + 3 * HOUR_MS, 0),
    Record(b"\x00\xff", bytes(3000), (), NOON_MS + 20 * HOUR_MS, 0),
    Record(None, None, (), NOON_MS, 1),
    Record(b"late", b"before the others", (), NOON_MS - 24 * HOUR_MS, 1),
    Record(b"key", b"other partition", (("h", b"x"),), NOON_MS + 2 * HOUR_MS, 1),
]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is dying here whose last requests could be on their way."""
    monkeypatch.setattr("barnabas.pipelines.copies.recovery.SETTLED_S", 0.05)


class Archived:
    """The topic `name` and its archive."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder / "archive"

    def add(self, records: list[Record]) -> None:
        produce(self.bootstrap, "origin", records)
        words = ["--bootstrap-servers", self.bootstrap, "--topic", "origin", "--output", str(self.folder)]
        assert archive.run(self.spark, archive.make_parser().parse_args([*words, "--once"])) == 0

    def restore(self, topic: str, *words: str) -> None:
        given = ["--bootstrap-servers", self.bootstrap, "--archive", str(self.folder), "--source-topic", "origin"]
        given += ["--topic", topic, "--checkpoint", str(self.checkpoint(topic)), *words]
        assert restore.run(self.spark, restore.make_parser().parse_args(given)) == 0

    def fails(self, topic: str, *words: str) -> str:
        with pytest.raises(Failure) as failure:
            self.restore(topic, *words)
        return str(failure.value)

    def checkpoint(self, topic: str) -> Path:
        return self.folder.parent / "checkpoints" / topic

    def forget_last_state(self, topic: str) -> None:
        """As a kill leaves it between the last acknowledgement and the note of it."""
        max((self.checkpoint(topic) / "state").glob("*.json")).unlink()

    def restored(self, topic: str) -> list[Record]:
        """Without timestamps, which are new, and offsets, which begin at 0."""
        return [record._replace(timestamp_ms=None, offset=None) for record in read(self.bootstrap, topic)]


@pytest.fixture(scope="module")
def archived(spark: SparkSession, broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    create_topic(broker.bootstrap_servers, "origin", 3)
    made = Archived(spark, broker.bootstrap_servers, tmp_path_factory.mktemp("restore"))
    made.add(SHAPES[:3])
    made.add(SHAPES[3:])
    return made


def expected(*indexes: int) -> list[Record]:
    return [SHAPES[index]._replace(timestamp_ms=None) for index in indexes]


def test_all_of_it_is_restored_once_and_in_order(archived: Archived, capsys: pytest.CaptureFixture[str]) -> None:
    archived.restore("whole", "--dry-run")
    plan = capsys.readouterr().out
    assert "whole, which will be created with 3 partitions" in plan
    assert "whole-0: 5 records, offsets 0 to 4" in plan
    assert "whole-1: 3 records, offsets 0 to 2" in plan

    archived.restore("whole", "--topic-config", "retention.ms=-1", "--chunk-records", "4")
    assert archived.restored("whole") == expected(*range(8))
    assert "8 rows in, 8 out" in capsys.readouterr().err
    archived.forget_last_state("whole")
    archived.restore("whole", "--dry-run")
    assert "the last run died while it wrote" in capsys.readouterr().out
    archived.restore("whole")
    assert archived.restored("whole") == expected(*range(8))

    produce(archived.bootstrap, "whole", [Record(b"stranger", b"", partition=2)])
    archived.restore("whole")  # all is there: what others do with the topic now is their affair
    shutil.rmtree(archived.checkpoint("whole"))
    assert "holds records that this job did not write" in archived.fails("whole")
    archived.restore("whole", "--adopt")
    assert archived.restored("whole")[:8] == expected(*range(8))
    delete_topic(archived.bootstrap, "whole")
    assert "whole was deleted since the last run" in archived.fails("whole")


@pytest.mark.parametrize(
    ("words", "indexes"),
    [
        (("--from-offset", "1=1", "--from-offset", "3"), [3, 4, 6, 7]),
        (("--to-offset", "2", "--from-offset", "0=1,1=0"), [1, 5, 6]),
        (("--from-time", "2023-11-14T13:00", "--to-time", "2023-11-14T15:00:00+00:00"), [1, 2, 7]),
    ],
)
def test_a_part_of_it_is_restored(
    archived: Archived, words: tuple[str, ...], indexes: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"part-{words[0].strip('-')}-{len(indexes)}"
    archived.restore(topic, *words, "--dry-run")
    assert f"\n  {len(indexes)} records\n" in capsys.readouterr().out
    archived.restore(topic, *words, "--timestamp-header", "archived-at")
    headers = {index: (("archived-at", b"%d" % (SHAPES[index].timestamp_ms or 0)),) for index in indexes}
    assert archived.restored(topic) == [
        record._replace(headers=record.headers + headers[index]) for index, record in zip(indexes, expected(*indexes))
    ]
    assert "belongs to another job, or to another part of the archive" in archived.fails(topic)


def test_what_cannot_be_restored_is_refused(archived: Archived, tmp_path: Path) -> None:
    create_topic(archived.bootstrap, "narrow", 1)
    assert "narrow has 1 partition, the archive 2" in archived.fails("narrow")
    create_topic(archived.bootstrap, "filled", 2)
    produce(archived.bootstrap, "filled", [Record(b"key", b"value")])
    assert "filled-0" in archived.fails("filled", "--dry-run")
    told = archived.fails("filled")
    assert "holds records that this job did not write" in told
    assert "--adopt" in told
    produce(archived.bootstrap, "filled", [Record(b"key", b"something else")])
    assert "offset 1 of filled-0" in archived.fails("filled", "--adopt")
    assert "has no topic other; it has origin" in archived.fails("x", "--source-topic", "other")
    assert "is not an archive" in archived.fails("x", "--archive", str(tmp_path))
    removed = archived.folder / "topic=origin" / "date=2023-11-13"  # of the record that came late
    removed.rename(tmp_path / "removed")
    assert "the archive lacks 1 file, the first is " in archived.fails("holey")
    archived.restore("holey", "--dry-run", "--from-time", "2023-11-14")
    archived.restore("holey", "--fail-on-data-loss", "false")
    (tmp_path / "removed").rename(removed)
    assert archived.restored("holey") == expected(0, 1, 2, 3, 4, 5, 7)


def test_a_topic_that_is_made_again_between_two_chunks_stops_the_restore(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ExactWriter.write

    def write_to_another(writer: ExactWriter, chunk: Chunk) -> int:
        written = write(writer, chunk)
        delete_topic(archived.bootstrap, "replaced")
        create_topic(archived.bootstrap, "replaced", 1)  # as a broker does that creates topics by itself
        return written

    monkeypatch.setattr(ExactWriter, "write", write_to_another)
    told = archived.fails("replaced", "--chunk-records", "4")
    assert "fewer records than this job wrote" in told
    assert "the topic was created again" in told
    assert read(archived.bootstrap, "replaced") == []


def test_offsets_of_a_part() -> None:
    def part(from_offset: dict[int, int], to_offset: dict[int, int]) -> Part:
        return Part(from_offset, to_offset, None, None)

    assert part({}, {}).offsets(0, range(5, 9)) == range(5, 9)
    assert part({ALL: 7, 1: 6}, {}).offsets(1, range(5, 9)) == range(6, 9)
    assert part({ALL: 7, 1: 6}, {}).offsets(0, range(5, 9)) == range(7, 9)
    assert part({ALL: 0}, {ALL: 100}).offsets(0, range(5, 9)) == range(5, 9)
    assert not part({ALL: 9}, {}).offsets(0, range(5, 9))
    assert not part({}, {0: 2}).offsets(0, range(5, 9))


def test_folders_tell_the_time_of_their_files() -> None:
    def times(start: str | None, stop: str | None) -> Part:
        return Part({}, {}, time(start), time(stop))

    def time(text: str | None) -> datetime | None:
        return None if text is None else datetime.fromisoformat(f"{text}:00+00:00")

    day, hour = "topic=a/date=2025-11-16/0-1.parquet", "topic=a/date=2025-11-16/hour=14/0-1.parquet"
    assert times("2025-11-16T23:00", None).may_hold(day)
    assert not times("2025-11-17T00:00", None).may_hold(day)
    assert not times(None, "2025-11-16T00:00").may_hold(day)
    assert times("2025-11-16T14:59", "2025-11-16T15:00").may_hold(hour)
    assert not times("2025-11-16T15:00", None).may_hold(hour)
    assert not times(None, "2025-11-16T14:00").may_hold(hour)
    assert times("2025-11-16T15:00", None).may_hold("elsewhere/0-1.parquet")


@pytest.mark.parametrize("words", [("--from-offset", "x"), ("--to-offset", "a=1"), ("--from-time", "yesterday")])
def test_options_that_make_no_sense(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    needed = ["--bootstrap-servers", "-", "--archive", "-", "--source-topic", "-"]
    with pytest.raises(SystemExit) as ended:
        restore.make_parser().parse_args([*needed, *words])
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err


def test_a_time_without_a_zone_is_utc() -> None:
    needed = ["--bootstrap-servers", "-", "--archive", "-", "--source-topic", "-", "--checkpoint", "-"]
    given = restore.make_parser().parse_args(
        [*needed, "--from-time", "2025-11-16", "--to-time", "2025-11-16T01:00+01:00"]
    )
    assert given.from_time == given.to_time == datetime(2025, 11, 16, tzinfo=UTC)
