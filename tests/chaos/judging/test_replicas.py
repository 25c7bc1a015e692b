"""Replicas that are not equal are found, byte by byte or record by record."""

from pathlib import Path

import pytest

from barnabas.protocol.batch_builder import build_batch
from tests.chaos.judging.replicas import Replica, differences

Rows = dict[int, tuple[str, str | None]]
"""Key and value of each record, by its offset; each is a batch."""

ROWS: Rows = {0: ("a", "1"), 1: ("b", "2"), 2: ("a", "3")}
END = 3


def log(rows: Rows, *, epoch: int = 0) -> bytes:
    return b"".join(
        build_batch(
            [(key.encode(), None if value is None else value.encode(), (), 17)],
            base_offset=offset,
            partition_leader_epoch=epoch,
        )
        for offset, (key, value) in rows.items()
    )


def replica(folder: Path, broker: int, *segments: bytes) -> Replica:
    place = folder / str(broker) / "topic-0"
    place.mkdir(parents=True)
    for number, data in enumerate(segments):
        (place / f"{number:020}.log").write_bytes(data)
    return Replica(broker, place)


def found(folder: Path, *others: bytes, is_compacted: bool = False) -> list[str]:
    replicas = [replica(folder, 1, log(ROWS)), replica(folder, 2, *others)]
    return [said.partition(": ")[2] for said in differences(replicas, END, is_compacted=is_compacted)]


@pytest.mark.parametrize(
    "others",
    [
        [log(ROWS)],
        [log({0: ("a", "1")}), log({1: ("b", "2"), 2: ("a", "3")})],  # segments begin where each replica wants
        [log({**ROWS, 3: ("c", "4")})],  # above the high watermark
    ],
)
def test_the_same_bytes_are_equal(tmp_path: Path, others: list[bytes]) -> None:
    assert found(tmp_path, *others) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (log({0: ("a", "1"), 1: ("b", "2")}), "that of broker 2 ends before offset 2, and should end at 3"),
        (log({**ROWS, 1: ("b", "x")}), "not the same bytes at offsets 1 and 1"),
        (log(ROWS, epoch=1), "not the same bytes at offsets 0 and 0"),
        (log(ROWS)[:-1] + b"x", f"{0:020}.log: the batch at offset 2 has a wrong CRC"),
        (b"", "that of broker 2 ends before offset 0, and should end at 3"),
    ],
)
def test_other_bytes_are_found(tmp_path: Path, other: bytes, said: str) -> None:
    assert found(tmp_path, other) == [said]


def test_replicas_that_are_equally_short_are_found(tmp_path: Path) -> None:
    short = log({0: ("a", "1")})
    said = differences([replica(tmp_path, 1, short), replica(tmp_path, 2, short)], END, is_compacted=False)
    assert said == ["topic-0 on brokers 1 and 2: both end at offset 1, and should end at 3"]


@pytest.mark.parametrize(
    "rows",
    [
        {1: ("b", "2"), 2: ("a", "3")},  # compacted here, and not there
        {**ROWS, 3: ("a", "4")},  # above the high watermark
    ],
)
def test_replicas_are_compacted_each_by_itself(tmp_path: Path, rows: Rows) -> None:
    assert found(tmp_path, log(rows), is_compacted=True) == []


def test_a_tombstone_may_be_gone_from_one_replica(tmp_path: Path) -> None:
    with_one = replica(tmp_path, 1, log({0: ("a", "1"), 1: ("b", None)}))
    without = replica(tmp_path, 2, log({0: ("a", "1")}))
    assert differences([with_one, without], END, is_compacted=True) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({**ROWS, 1: ("b", "x")}, "not the same record at offset 1"),
        ({0: ("a", "1"), 1: ("b", "2")}, "not the same newest record of key b'a': (2, b'3') and (0, b'1')"),
        ({1: ("b", "2")}, "not the same newest record of key b'a': (2, b'3') and None"),
    ],
)
def test_other_records_are_found(tmp_path: Path, rows: Rows, said: str) -> None:
    assert found(tmp_path, log(rows), is_compacted=True) == [said]
