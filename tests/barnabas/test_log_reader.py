"""Reading files: batches, indexes, snapshots, checkpoints, and what is damaged in them."""

import json
import struct
from pathlib import Path

import pytest

from barnabas.__main__ import main
from barnabas.log_reader import Item, find_files, read
from barnabas.protocol.batch_builder import build_batch, build_control_batch, build_end_transaction_marker
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord, encode_record
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord, TopicRecord
from barnabas.storage.checkpoints import encode_checkpoint
from barnabas.storage.producer_snapshot import snapshot_of
from barnabas.storage.producer_state import BatchMetadata, ProducerEntry, ProducerState

RECORDS = [NewRecord(b"k", b"v", (("h", b"1"),), 1000), NewRecord(None, b"\xff", (), 1001)]


def write(path: Path, *parts: bytes | bytearray) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(bytes, parts)))
    return str(path)


def types(items: list[Item]) -> list[str]:
    return [item["type"] for item in items]


@pytest.fixture
def segment(tmp_path: Path) -> str:
    first = build_batch(RECORDS, partition_leader_epoch=3)
    second = build_batch(
        RECORDS, base_offset=2, compression=CompressionType.GZIP, producer_id=7, producer_epoch=0, base_sequence=5
    )
    return write(tmp_path / "orders-0" / "00000000000000000000.log", first, second)


def test_batches_are_described_by_their_headers(segment: str) -> None:
    first, second = read(segment)
    assert (first["base_offset"], first["last_offset"], first["records"], first["leader_epoch"]) == (0, 1, 2, 3)
    assert (second["compression"], second["producer_id"], second["last_sequence"]) == ("gzip", 7, 6)
    assert second["position"] == first["size_bytes"]
    assert first["is_valid"]
    assert second["is_valid"]


def test_records_are_shown_when_asked_for(segment: str) -> None:
    items = list(read(segment, records=True))
    assert types(items) == ["batch", "record", "record", "batch", "record", "record"]
    assert items[1] == {
        "type": "record", "offset": 0, "timestamp": 1000, "key": "k", "value": "v",
        "headers": [{"key": "h", "value": "1"}],
    }  # fmt: skip
    assert items[5]["value_base64"] == "/w=="


def test_a_flipped_bit_is_found_and_reading_goes_on(segment: str) -> None:
    data = bytearray(Path(segment).read_bytes())
    data[70] ^= 1
    Path(segment).write_bytes(data)
    items = list(read(segment, records=True))
    assert types(items) == ["batch", "damage", "batch", "record", "record"]
    assert "CRC" in items[1]["text"]


@pytest.mark.parametrize(
    ("tail", "complaint"),
    [
        (b"\x00" * 30, "the last 30 bytes are no whole batch"),
        (b"\x00" * 100, "no batch can be read from here on"),  # a file that was preallocated, or lost its data
        (bytes(build_batch(RECORDS))[:-1], "are no whole batch"),
    ],
)
def test_a_torn_tail_is_found(segment: str, tail: bytes, complaint: str) -> None:
    with open(segment, "ab") as file:
        file.write(tail)
    items = list(read(segment))
    assert types(items) == ["batch", "batch", "damage"]
    assert complaint in items[2]["text"]


def test_metadata_records_have_names(tmp_path: Path) -> None:
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        TopicRecord(name="orders", topic_id=b"\x01" * 16),
    ]
    leader = struct.pack(">hi", 0, 1) + b"\x01\x01\x00"  # leader 1, no voters, no tags
    path = write(
        tmp_path / "__cluster_metadata-0" / "00000000000000000000.log",
        build_control_batch([(ControlType.LEADER_CHANGE, leader)], timestamp=1),
        build_batch([NewRecord(None, encode_record(record), (), 1) for record in records], base_offset=1),
        build_batch([NewRecord(None, b"\x01\x7f\x00", (), 1)], base_offset=3),
    )
    items = [item for item in read(path, records=True) if item["type"] != "batch"]
    assert [item["name"] for item in items] == ["LEADER_CHANGE", "FeatureLevelRecord", "TopicRecord", "unknown"]
    assert items[0]["data"]["leader_id"] == 1
    assert items[2]["data"] == {"name": "orders", "topic_id": "AQEBAQEBAQEBAQEBAQEBAQ"}


def test_markers_have_names(tmp_path: Path) -> None:
    marker = build_end_transaction_marker(
        ControlType.COMMIT, coordinator_epoch=4, producer_id=7, producer_epoch=1, timestamp=1
    )
    items = list(read(write(tmp_path / "orders-0" / "00000000000000000000.log", marker), records=True))
    assert (items[1]["name"], items[1]["data"]) == ("COMMIT", {"coordinator_epoch": 4})


def test_index_rows_are_absolute_and_zeros_at_the_end_are_none(tmp_path: Path) -> None:
    rows = struct.pack(">iiii", 5, 4096, 9, 8192) + bytes(80)
    path = write(tmp_path / "00000000000000000100.index", rows)
    assert [(item["offset"], item["position"]) for item in read(path)] == [(105, 4096), (109, 8192)]


def test_a_position_that_ends_in_zero_bytes_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "00000000000000000000.index", struct.pack(">ii", 5, 1 << 24), bytes(8))
    assert [(item["offset"], item["position"]) for item in read(path)] == [(5, 1 << 24)]


def test_time_index_rows_are_absolute(tmp_path: Path) -> None:
    path = write(tmp_path / "00000000000000000100.timeindex", struct.pack(">qi", 1000, 5))
    assert list(read(path)) == [{"type": "time_index_entry", "timestamp": 1000, "offset": 105}]


def test_a_producer_snapshot_is_listed(tmp_path: Path) -> None:
    state = ProducerState()
    state.load(0, [(7, ProducerEntry(1, (BatchMetadata(9, 42, 4, 1000),), 1000))], 1000, 60_000)
    path = write(tmp_path / "00000000000000000043.snapshot", snapshot_of(state))
    (producer,) = read(path)
    assert (producer["producer_id"], producer["producer_epoch"], producer["first_sequence"]) == (7, 1, 5)
    assert (producer["last_sequence"], producer["last_offset"]) == (9, 42)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("leader-epoch-checkpoint", encode_checkpoint(["3 42"]), {"epoch": 3, "start_offset": 42}),
        ("log-start-offset-checkpoint", encode_checkpoint(["a 0 9"]), {"topic": "a", "partition": 0, "offset": 9}),
        ("cleaner-offset-checkpoint", encode_checkpoint(["a 1 7"]), {"topic": "a", "partition": 1, "offset": 7}),
        ("partition.metadata", b"version: 0", {"text": "version: 0"}),
    ],
)  # fmt: skip
def test_text_files_are_listed(tmp_path: Path, name: str, data: bytes, expected: Item) -> None:
    (item,) = read(write(tmp_path / name, data))
    assert {key: value for key, value in item.items() if key != "type"} == expected


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "00000000000000000000.snapshot"])
def test_garbage_is_damage_and_no_traceback(tmp_path: Path, name: str) -> None:
    assert types(list(read(write(tmp_path / name, b"garbage\nmore garbage\n")))) == ["damage"]


def test_a_directory_gives_its_files_in_order(tmp_path: Path) -> None:
    for name in ("b-0/00000000000000000000.log", "a-0/00000000000000000000.log", "a-0/ignored.txt", "meta.properties"):
        write(tmp_path / name, b"")
    found = [str(Path(path).relative_to(tmp_path)) for path in find_files(str(tmp_path))]
    assert found == ["a-0/00000000000000000000.log", "b-0/00000000000000000000.log", "meta.properties"]


def test_the_command_prints_text_and_says_all_is_valid(segment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", segment, "--records"]) == 0
    out = capsys.readouterr().out
    assert "batch 0..1  2 records" in out
    assert "'k' = 'v'  [h='1']" in out
    assert "null = base64:/w==" in out
    assert "2 batches, 4 records, all valid" in out


def test_the_command_prints_json_lines(segment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(Path(segment).parent), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["type"]) for line in lines] == [(segment, "batch")] * 2


def test_the_command_fails_on_damage(segment: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open(segment, "ab") as file:
        file.write(b"torn")
    assert main(["log", "dump", segment]) == 1
    assert "the last 4 bytes are no whole batch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "complaint"), [("missing.log", "no such file or directory"), ("notes.txt", "not a file of a log")]
)
def test_the_command_says_what_it_cannot_read(
    tmp_path: Path, name: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert main(["log", "dump", str(tmp_path / name)]) == 1
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
