"""What the exact writer is made of: states, chunks, comparisons. Mirrors and restores test the whole."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.copies.comparison import (
    Cut,
    Mismatch,
    Row,
    after_the_cut,
    after_those_held,
    fingerprint,
    next_offsets,
)
from barnabas.pipelines.copies.copying import next_chunk
from barnabas.pipelines.copies.ordered_sink import sink_settings
from barnabas.pipelines.copies.write_state import KEPT, Place, State, StateLog, TopicState
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import LocalFolder

SCHEMA = (
    "topic string, partition int, offset long,"
    " key binary, value binary, headers array<struct<key string, value binary>>"
)

STATE = State(
    {"job": "mirror"},
    {"a.b-c": TopicState("a", "id 1", "id 2", {0: Place(3, 4), 11: Place(5, 6)})},
    {("a.b-c", 11): 9},
)


# ---- states


def test_a_state_is_found_again_and_old_ones_go(tmp_path: Path) -> None:
    log = StateLog(LocalFolder(str(tmp_path)))
    assert log.load() is None
    for _ in range(2 * KEPT):
        log.save(STATE)
    assert StateLog(LocalFolder(str(tmp_path))).load() == STATE
    assert len(list((tmp_path / "state").glob("*.json"))) == KEPT + 1


def test_of_two_runs_that_go_on_from_one_state_one_is_refused(tmp_path: Path) -> None:
    one, other = StateLog(LocalFolder(str(tmp_path))), StateLog(LocalFolder(str(tmp_path)))
    one.save(STATE)
    with pytest.raises(Failure, match="another run uses the checkpoint"):
        other.save(STATE)
    with one.held(), pytest.raises(Failure, match="another run uses the checkpoint"), other.held():
        pass


def test_partitions_move_and_nothing_is_written_any_more() -> None:
    moved = STATE.moved({("a.b-c", 11): Place(9, 10)})
    assert moved.places() == {("a.b-c", 0): Place(3, 4), ("a.b-c", 11): Place(9, 10)}
    assert moved.writing == {}


# ---- chunks


@pytest.mark.parametrize(
    ("next_offsets", "until", "limit", "expected"),
    [
        ({0: 5, 1: 7}, {0: 9, 1: 7}, 100, {0: range(5, 9)}),  # nothing to do in 1
        ({0: 0, 1: 0}, {0: 300, 1: 100}, 40, {0: range(30), 1: range(10)}),  # shares by what is left
        ({0: 0, 1: 0}, {0: 1_000_000, 1: 1}, 10, {0: range(9), 1: range(1)}),  # nobody waits for ever
        ({0: 5, 1: 0}, {0: 6}, 10, {0: range(5, 6)}),  # 1 is not copied any more
    ],
)
def test_the_next_chunk(
    next_offsets: dict[int, int], until: dict[int, int], limit: int, expected: dict[int, range]
) -> None:
    def keyed(numbers: dict[int, Any]) -> dict[tuple[str, int], Any]:
        return {("t", partition): number for partition, number in numbers.items()}

    assert next_chunk(keyed(next_offsets), keyed(until), limit) == keyed(expected)


# ---- comparisons


def frame(spark: SparkSession, rows: Sequence[tuple[str, int, bytes | None]]) -> DataFrame:
    """(topic, offset, value) of partition 3."""
    return spark.createDataFrame([(topic, 3, offset, None, value, None) for topic, offset, value in rows], SCHEMA)


def test_what_the_target_holds_is_the_beginning_of_the_source(spark: SparkSession) -> None:
    source = frame(
        spark, [("dense", n, b"%d" % n) for n in range(10, 20)] + [("holes", 2 * n, b"%d" % n) for n in range(9)]
    )
    held = frame(
        spark,
        [("dense", 100 + n, b"%d" % (10 + n)) for n in range(4)]
        + [("holes", n, b"%d" % n) for n in range(6) if n not in (1, 5)],  # compaction took two of these
    )
    spans = {("dense", 3): range(100, 104), ("holes", 3): range(6)}
    assert next_offsets(source, held, spans) == {("dense", 3): 14, ("holes", 3): 11}


@pytest.mark.parametrize(
    ("held", "offset"),
    [
        ([(0, b"0"), (1, b"x")], 1),  # somebody else's record
        ([(0, b"0"), (1, None)], 1),
        ([(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3")], 3),  # more than the source has
    ],
)
def test_what_the_target_holds_is_something_else(
    spark: SparkSession, held: list[tuple[int, bytes | None]], offset: int
) -> None:
    source = frame(spark, [("t", n, b"%d" % n) for n in range(3)])
    with pytest.raises(Mismatch) as mismatch:
        next_offsets(source, frame(spark, [("t", *row) for row in held]), {("t", 3): range(len(held))})
    assert (mismatch.value.topic, mismatch.value.partition, mismatch.value.offset) == ("t", 3, offset)


def test_records_that_differ_have_different_fingerprints(spark: SparkSession) -> None:
    contents = [
        (None, None, None),
        (b"", None, None),
        (None, b"", None),
        (b"a", b"b", None),
        (b"ab", b"", None),
        (b"a", b"b", [("h", None)]),
        (b"a", b"b", [("h", b"")]),
        (b"a", b"b", [("h", None), ("h", None)]),
        (b"a", b"b", [("h", b"1"), ("i", b"2")]),
        (b"a", b"b", [("i", b"2"), ("h", b"1")]),
    ]
    rows = spark.createDataFrame([("t", 0, 0, *content) for content in contents], SCHEMA)
    assert rows.select(fingerprint()).distinct().count() == len(contents)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("abcd", "ab", 2),
        ("", "ab", None),  # all of it was compacted away, or nothing is left to copy
        ("bd", "abc", 1),  # a and c were compacted away
        ("cd", "ab", 0),  # so were all that were written
        ("abc", "abc", None),
        ("aab", "aa", 2),
        ("ba", "ab", 1),  # the a behind b is another one
    ],
)
def test_what_is_left_of_a_compacted_source_is_looked_for_in_order(
    source: str, target: str, expected: int | None
) -> None:
    def rows(letters: str) -> list[Row]:
        return [Row(offset, ord(letter)) for offset, letter in enumerate(letters)]

    assert after_those_held(rows(source), rows(target)) == expected


@pytest.mark.parametrize(
    ("left", "held", "cut", "expected"),
    [
        # Every offset had a record.
        ({4: "e", 5: "f"}, "abcde", Cut(0, 4, 6), [5]),
        ({4: "a", 5: "a"}, "aaaaa", Cut(0, 4, 6), [5]),  # what repeats itself is counted by its offsets
        ({4: "a", 5: "a"}, "aa", Cut(0, 4, 6), [2]),  # 2 and 3 were lost
        ({4: "e", 5: "f"}, "abcdx", Cut(0, 4, 6), []),
        ({4: "e", 5: "f"}, "abcdefg", Cut(0, 4, 6), []),
        # Every second one was a marker.
        ({8: "e"}, "abcde", Cut(0, 8, 10), [9]),
        ({4: "c", 6: "d", 8: "e"}, "abcde", Cut(0, 4, 10), [9]),
        ({4: "c", 6: "d", 8: "e"}, "abc", Cut(0, 4, 10), [5]),
        ({4: "c", 6: "d", 8: "e"}, "ab", Cut(0, 4, 10), [2]),  # perhaps all that there was, perhaps not
        ({4: "c", 6: "d", 8: "e"}, "abcdex", Cut(0, 4, 10), []),
        ({4: "a", 6: "a", 8: "a"}, "aaa", Cut(0, 4, 10), [9, 7]),
        ({4: "c", 6: "d", 8: "e"}, "a-cd", Cut(0, 4, 10), [7]),  # the target has lost one too
        # Nothing is left of what was being copied.
        ({}, "abcde", Cut(0, 20, 10), [5]),
        ({}, "abcdefghijk", Cut(0, 20, 10), []),
    ],
)
def test_what_is_left_of_a_source_that_was_cut_is_laid_against_the_targets_end(
    left: dict[int, str], held: str, cut: Cut, expected: list[int]
) -> None:
    rows = [Row(offset, ord(letter)) for offset, letter in left.items()]
    assert after_the_cut(rows, [None if letter == "-" else ord(letter) for letter in held], cut) == expected


# ---- the sink


def test_the_producer_keeps_its_promises_and_waits_as_long_as_told() -> None:
    settings = sink_settings({"kafka.bootstrap.servers": "a", "kafka.linger.ms": "0"}, timedelta(minutes=2))
    assert settings["kafka.acks"] == "all"
    assert settings["kafka.enable.idempotence"] == "true"
    assert settings["kafka.delivery.timeout.ms"] == settings["kafka.max.block.ms"] == "120000"
    assert settings["kafka.request.timeout.ms"] == "30000"
    assert settings["kafka.linger.ms"] == "0"
    assert sink_settings({}, timedelta(seconds=5))["kafka.request.timeout.ms"] == "2500"  # Kafka wants it to be less
    assert sink_settings({}, timedelta(days=1000))["kafka.delivery.timeout.ms"] == "2147483647"
    with pytest.raises(Failure, match=r"enable\.idempotence must be true"):
        sink_settings({"kafka.enable.idempotence": "false"}, timedelta(minutes=2))
