"""The rows of both indexes: in memory, in files, and on the way between."""

from pathlib import Path
from struct import iter_unpack

import pytest

from barnabas.base.files import write_file
from barnabas.broker.system.disk import OsFiles
from barnabas.storage.segments.file_cache import FileCache
from barnabas.storage.segments.offset_index import OffsetIndex
from barnabas.storage.segments.time_index import TimeIndex

ROWS = [(9, 0), (19, 5_000), (40, 12_345), (41, 2**31 - 1)]


@pytest.fixture(params=["in memory", "in its file"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> OffsetIndex:
    cache = FileCache(OsFiles(), 4)
    table = OffsetIndex(f"{tmp_path}/0.index", cache)
    for row in ROWS:
        table.append(*row)
    if request.param == "in its file":
        write_file(OsFiles(), table.path, table.to_bytes(), sync=False)
        table.leave_memory(len(ROWS))
    return table


@pytest.mark.parametrize(
    ("relative_offset", "slot"),
    [
        (8, -1),  # before the first row: from the segment's start
        (9, 0),  # exactly
        (10, 0),  # between two rows the lower one
        (40, 2),
        (41, 3),
        (9_999, 3),  # behind the last row
    ],
)
def test_an_offset_is_found_from_the_row_at_or_below_it(index: OffsetIndex, relative_offset: int, slot: int) -> None:
    assert index.slot_of_offset(relative_offset) == slot


@pytest.mark.parametrize(("position", "slot"), [(0, 0), (4_999, 0), (5_000, 1), (2**31 - 1, 3)])
def test_a_position_is_found_from_the_row_at_or_before_it(index: OffsetIndex, position: int, slot: int) -> None:
    assert index.slot_of_position(position) == slot


def test_rows_and_the_last_one_are_read(index: OffsetIndex) -> None:
    assert [index.row(slot) for slot in range(len(index))] == ROWS
    assert index.last() == ROWS[-1]


def test_the_rows_of_a_file_come_back_into_memory(index: OffsetIndex) -> None:
    index.load()
    index.append(50, 2**31 - 1)
    assert index.row(4) == (50, 2**31 - 1)
    assert list(iter_unpack(">ii", index.to_bytes()))[:4] == ROWS


def test_an_empty_index_has_no_rows(tmp_path: Path) -> None:
    empty = OffsetIndex(f"{tmp_path}/0.index", FileCache(OsFiles(), 1))
    assert (len(empty), empty.last(), empty.slot_of_offset(7), empty.to_bytes()) == (0, None, -1, b"")


def test_the_files_are_kafkas(tmp_path: Path) -> None:
    times = TimeIndex(f"{tmp_path}/0.timeindex", FileCache(OsFiles(), 1))
    times.append(1_700_000_000_000, 41)
    assert times.to_bytes() == (1_700_000_000_000).to_bytes(8, "big") + (41).to_bytes(4, "big")
    offsets = OffsetIndex(f"{tmp_path}/0.index", FileCache(OsFiles(), 1))
    offsets.append(41, 4_096)
    assert offsets.to_bytes() == (41).to_bytes(4, "big") + (4_096).to_bytes(4, "big")


def test_an_index_is_full_when_its_file_would_be(tmp_path: Path) -> None:
    cache = FileCache(OsFiles(), 1)
    offsets, times = OffsetIndex(f"{tmp_path}/0.index", cache), TimeIndex(f"{tmp_path}/0.timeindex", cache)
    for number in range(3):
        assert not offsets.is_full(24)
        offsets.append(number, number)
        times.append(number, number)
    assert offsets.is_full(24)
    assert times.is_full(4 * 12), "one row is kept for the closing of the segment"
    assert not times.is_full(5 * 12)


def test_time_rows_are_added_only_when_time_has_grown(tmp_path: Path) -> None:
    times = TimeIndex(f"{tmp_path}/0.timeindex", FileCache(OsFiles(), 1))
    for timestamp, relative_offset in [(-1, 3), (100, 5), (100, 9), (90, 12), (101, 15)]:
        times.maybe_append(timestamp, relative_offset)
    assert [times.row(slot) for slot in range(len(times))] == [(100, 5), (101, 15)]
    assert [times.relative_offset_before(timestamp) for timestamp in (99, 100, 101, 500)] == [0, 5, 15, 15]
