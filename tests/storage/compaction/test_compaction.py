"""What compaction keeps, what it drops, and how the batches look afterwards."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.records import NewRecord
from barnabas.storage.compaction.key_map import KeyMap
from tests.storage.compaction.compacted import HOUR_MS, CompactedLog
from tests.storage.logs import BatchFields, Broker, append, present

A, B, C = b"a", b"b", b"c"

KeyValue = tuple[bytes | None, bytes | None]


@pytest.mark.parametrize(
    ("batches", "expected", "why"),
    [
        ([[(A, b"1")], [(A, b"2")]], [(1, A, b"2")], "the later one of a key stays, with its offset"),
        ([[(A, b"1"), (B, b"1")], [(A, b"2")]], [(1, B, b"1"), (2, A, b"2")], "a batch loses one record of two"),
        ([[(A, b"1"), (A, b"2"), (A, b"3")]], [(2, A, b"3")], "within a batch too"),
        ([[(A, b"1")], [(A, None)]], [(1, A, None)], "a tombstone is the last record like any other, at first"),
        ([[(A, None)], [(A, b"1")]], [(1, A, b"1")], "and not the last if the key comes back"),
        ([[(b"", b"1")], [(b"", b"2")]], [(1, b"", b"2")], "an empty key is a key"),
        ([[(A, b"")], [(B, b"1")]], [(0, A, b""), (1, B, b"1")], "an empty value is a value"),
    ],
)
def test_what_survives(
    batches: list[list[KeyValue]], expected: list[tuple[int, bytes | None, bytes | None]], why: str
) -> None:
    compacted = CompactedLog()
    for records in batches:
        compacted.append(*records)
    compacted.roll()
    compacted.clean()
    assert compacted.records() == expected, why


def test_the_active_segment_is_never_touched() -> None:
    compacted = CompactedLog()
    compacted.append((A, b"1"))
    compacted.roll()
    compacted.append((A, b"2"))
    compacted.append((A, b"3"))
    compacted.clean()
    assert compacted.records() == [(0, A, b"1"), (1, A, b"2"), (2, A, b"3")]


def test_records_of_an_open_transaction_and_those_behind_it_are_not_touched() -> None:
    compacted = CompactedLog()
    compacted.append((A, b"1"))
    compacted.append((A, b"2"))
    compacted.roll()
    compacted.append((A, b"3"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    compacted.roll()
    compacted.append((A, b"4"))
    compacted.roll()
    compacted.clean()
    assert compacted.records() == [(1, A, b"2"), (2, A, b"3"), (3, A, b"4")]


def test_a_batch_keeps_all_but_its_records() -> None:
    compacted = CompactedLog()
    compacted.append((A, b"0"))
    codec = CompressionType.ZSTD
    fields: BatchFields = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 40, "compression": codec}
    compacted.append((A, b"1"), (B, b"1"), (C, b"1"), **fields)
    before = compacted.batches()[1][0]
    compacted.append((A, b"2"), (C, b"2"))
    compacted.roll()
    compacted.clean()
    after, records = compacted.batches()[0]
    assert [record.offset for record in records] == [2]
    kept = ["base_offset", "last_offset_delta", "partition_leader_epoch", "attributes", "max_timestamp"]
    kept += ["producer_id", "producer_epoch", "base_sequence", "magic"]
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.records_count == 1


@pytest.mark.parametrize("producer", [True, False])
def test_the_last_batch_of_a_producer_stays_though_it_is_empty(producer: bool) -> None:
    """Its sequence must survive, or the producer's next batch would be refused after a restart."""
    compacted = CompactedLog()
    fields: BatchFields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0} if producer else {}
    compacted.append((A, b"1"), **fields)
    compacted.append((A, b"2"))
    compacted.roll()
    compacted.clean()
    assert [header.base_offset for header, _ in compacted.batches()] == ([0, 1] if producer else [1])
    assert compacted.records() == [(1, A, b"2")]


def test_the_last_batch_that_was_cleaned_stays_though_it_is_empty() -> None:
    """It tells up to where the log was cleaned, whatever the checkpoint says."""
    compacted = CompactedLog(delete_retention_ms=0)
    compacted.append((A, b"1"))
    compacted.append((B, None))
    compacted.roll()
    compacted.clean()
    compacted.broker.clock.advance(1)
    compacted.log.log_dir.cleaner_offsets.clear()
    compacted.log.maintenance.check_cleanable_at(0)
    compacted.clean()
    assert compacted.records() == [(0, A, b"1")]
    assert [(header.base_offset, header.records_count) for header, _ in compacted.batches()] == [(0, 1), (1, 0)]


def test_a_tombstone_stays_for_its_time_from_the_first_cleaning_that_passes_it() -> None:
    compacted = CompactedLog(delete_retention_ms=HOUR_MS)
    clock = compacted.broker.clock
    compacted.append((A, b"1"))
    compacted.append((A, None), (B, b"1"))
    compacted.roll()
    clock.advance(5 * HOUR_MS)  # its age before that does not count
    compacted.clean()
    assert compacted.records() == [(1, A, None), (2, B, b"1")]
    header, _ = compacted.batches()[0]
    delete_horizon_ms = present(header.delete_horizon_ms)
    first_cleaned_ms = delete_horizon_ms - HOUR_MS
    assert first_cleaned_ms <= clock.now_ms()
    _clean_again(compacted, delete_horizon_ms - 1)
    assert compacted.records()[:2] == [(1, A, None), (2, B, b"1")], "a millisecond too early"
    _clean_again(compacted, delete_horizon_ms)
    assert compacted.records()[0] == (2, B, b"1")
    assert compacted.batches()[0][1][0].timestamp == compacted.batches()[0][0].max_timestamp, "timestamps are the same"


def _clean_again(compacted: CompactedLog, time_ms: int) -> None:
    compacted.broker.clock.advance(time_ms - compacted.broker.clock.now_ms())
    compacted.append((C, b"%d" % time_ms))
    compacted.roll()
    compacted.clean()


def test_records_without_a_key_go_when_a_topic_becomes_compacted() -> None:
    broker = Broker(log_cleaner_backoff_ms=0)
    compacted = CompactedLog(broker, cleanup_policy=("delete",))
    compacted.append((None, b"1"), (A, b"1"))
    compacted.append((None, b"2"))
    compacted.roll()
    compacted = CompactedLog(broker)
    compacted.clean()
    assert compacted.records() == [(1, A, b"1")]
    assert broker.report.having("2 without a key were dropped")


def test_a_log_with_more_keys_than_fit_into_memory_takes_several_passes() -> None:
    broker = Broker(log_cleaner_backoff_ms=0, log_cleaner_dedupe_buffer_size=24 * 10)
    compacted = CompactedLog(broker)
    for number in range(60):
        compacted.append((b"%d" % (number % 30), b"%d" % number))
    compacted.roll()
    for _ in range(10):
        compacted.clean()
    assert broker.manager.cleaner.runs > 3
    assert compacted.records() == [(number, b"%d" % (number % 30), b"%d" % number) for number in range(30, 60)]
    assert compacted.log.compaction.first_dirty_offset == 60


def test_small_segments_become_one_as_long_as_they_fit() -> None:
    compacted = CompactedLog(internal_segment_bytes=1_000)
    for number in range(60):
        compacted.append((b"%d" % number, b"x" * 40))
        if number % 3 == 2:
            compacted.roll()
    sizes = [segment.size for segment in compacted.log.segments]
    compacted.clean()
    found = [segment.size for segment in compacted.log.segments]
    assert len(found) < len(sizes)
    assert max(found) <= 1_000
    assert len(compacted.records()) == 60


def test_lookups_work_on_what_is_left() -> None:
    compacted = CompactedLog(internal_segment_bytes=2_000)
    start_ms = compacted.broker.clock.now_ms()
    for number in range(200):
        compacted.append((b"%d" % (number % 7), b"x" * 30), timestamp=start_ms + number)
    compacted.roll()
    compacted.clean()
    log = compacted.log
    offsets = [offset for offset, _, _ in compacted.records()]
    assert offsets == list(range(193, 200))
    assert present(log.offset_for_timestamp(start_ms)).offset == 193
    assert present(log.offset_for_timestamp(start_ms + 196)).offset == 196
    assert present(log.offset_of_max_timestamp()).offset == 199
    assert log.read(17, 1 << 20, max_offset=200) is not None, "the next batch behind what was compacted away"
    assert log.end_offset_for_epoch(0) == (0, 200)


@pytest.mark.parametrize("stop", ["restart", "kill", "cut_power"])
def test_what_was_compacted_away_is_no_loss_at_the_next_start(stop: str) -> None:
    compacted = CompactedLog(internal_segment_bytes=700)
    for number in range(100):
        compacted.append((b"%d" % (number % 3), b"%d" % number), producer_id=1, producer_epoch=0, base_sequence=number)
        compacted.broker.settle()
    compacted.roll()
    compacted.clean()
    records = compacted.records()
    getattr(compacted.broker, stop)()
    again = CompactedLog(compacted.broker)
    assert again.records() == records
    assert again.log.log_end_offset == 100
    assert again.log.producers.by_id[1].last_sequence == 99
    assert not compacted.broker.report.having("warning")


operations = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from([b"%d" % key for key in range(8)]), st.none() | st.binary(max_size=20)),
                 min_size=1, max_size=6),
        st.sampled_from(list(CompressionType)),
        st.sampled_from(["", "", "roll", "clean", "wait"]),
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(operations)
def test_whatever_is_written_a_reader_of_the_compacted_log_ends_with_the_same_table(
    steps: list[tuple[list[KeyValue], CompressionType, str]],
) -> None:
    compacted = CompactedLog(delete_retention_ms=HOUR_MS, internal_segment_bytes=600)
    table: dict[bytes | None, bytes | None] = {}
    for records, codec, then in steps:
        compacted.append(*records, compression=codec)
        for key, value in records:
            table[key] = value
        if then:
            compacted.roll()
        if then == "clean":
            compacted.clean()
        if then == "wait":
            compacted.broker.clock.advance(2 * HOUR_MS)
    compacted.roll()
    compacted.clean()
    read: dict[bytes | None, bytes | None] = {}
    offsets = []
    for offset, key, value in compacted.records():
        offsets.append(offset)
        read[key] = value
    assert offsets == sorted(set(offsets))
    assert {key: value for key, value in read.items() if value is not None} == {
        key: value for key, value in table.items() if value is not None
    }


def test_the_key_map_is_a_dict_of_bounded_size() -> None:
    random = Random(7)
    keys = [random.randbytes(random.randrange(30)) for _ in range(40_000)]
    found, expected = KeyMap(24 * 100_000, 0.9), {}
    for offset, key in enumerate(keys):
        found.put(key, offset)
        expected[key] = offset
    assert found.entries == len(expected)
    assert all(found.get(key) == offset for key, offset in expected.items())
    assert found.get(b"never put, and longer than any that was") == -1


@pytest.mark.parametrize(
    ("slots", "load_factor", "entries"), [(10, 0.9, 9), (10, 1.0, 10), (5_592_405, 0.9, 5_033_164)]
)
def test_the_key_map_takes_as_many_keys_as_kafkas(slots: int, load_factor: float, entries: int) -> None:
    assert KeyMap(24 * slots, load_factor).entries_max == entries


def test_a_full_key_map_still_finds_and_misses() -> None:
    full = KeyMap(24 * 100, 1.0)
    for offset in range(100):
        full.put(b"%d" % offset, offset)
    assert full.is_full
    assert [full.get(b"%d" % offset) for offset in range(101)] == [*range(100), -1]


def test_log_append_times_survive() -> None:
    compacted = CompactedLog(message_timestamp_type="LogAppendTime", delete_retention_ms=HOUR_MS)
    now_ms = compacted.broker.clock.now_ms()
    for value in (b"1", None):
        batch = build_batch([NewRecord(A, value, (), 17), NewRecord(B, value, (), 18)])
        append(compacted.log, batch, now_ms=now_ms)
    compacted.roll()
    compacted.clean()
    header, records = compacted.batches()[0]
    assert header.delete_horizon_ms is not None
    assert [record.timestamp for record in records] == [now_ms, now_ms]
