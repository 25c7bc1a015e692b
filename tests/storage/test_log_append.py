"""Appending: what is refused, what is patched, what is written, and what stays when the disk does not play along."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from barnabas.protocol.batch_builder import build_batch, build_control_batch
from barnabas.protocol.batch_header import CONTROL_FLAG, LOG_APPEND_TIME_FLAG, crc_of, header_at
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaStorageError,
    MessageTooLarge,
    OutOfOrderSequence,
    RecordListTooLarge,
)
from barnabas.protocol.records import ControlType, NewRecord, iter_records
from barnabas.storage.validation import InvalidRecords, InvalidTimestamps
from tests.storage.logs import NOW_MS, BatchFields, Broker, append, batch, headers_of, offsets_of, present, sized

HOUR_MS = 3_600_000


def patched(data: bytearray, position: int, value: int, size: int) -> bytearray:
    """The batch with another field, and the CRC to match."""
    data[position : position + size] = value.to_bytes(size, "big", signed=True)
    data[17:21] = crc_of(memoryview(data)).to_bytes(4, "big")
    return data


def test_offsets_follow_one_another_whatever_the_batches_hold() -> None:
    log = Broker().log()
    infos = [append(log, batch(*[b"v"] * count)) for count in (1, 3, 2)]
    assert [(info.base_offset, info.last_offset) for info in infos] == [(0, 0), (1, 3), (4, 5)]
    assert log.log_end_offset == 6
    assert offsets_of(log) == [0, 1, 4]


def test_base_offset_and_leader_epoch_are_patched_in_place_and_the_crc_still_holds() -> None:
    log = Broker().log()
    append(log)
    data = batch(b"a", b"b")
    append(log, data, leader_epoch=7)
    header = header_at(data)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 7)
    assert header.crc == crc_of(memoryview(data))
    assert present(log.read(1, 1 << 20, max_offset=3)).read() == data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (bytearray(), CorruptMessage),  # nothing at all
        (batch()[:60], CorruptMessage),  # not even a header
        (batch()[:-1], CorruptMessage),  # less than announced
        (batch() + batch(), InvalidRecord),  # two batches: Kafka takes one a partition and request
        (batch() + b"x", InvalidRecord),  # trailing bytes
        (patched(batch(), 8, 10, 4), CorruptMessage),  # an impossible length
        (patched(batch(), 8, -1, 4), CorruptMessage),
        (patched(batch(), 16, 1, 1), InvalidRecord),  # an old format
        (patched(batch(), 16, 3, 1), CorruptMessage),  # a format that does not exist
        (batch()[:-1] + b"\xff", CorruptMessage),  # a flipped bit: the CRC tells
        (patched(batch(), 0, 5, 8), InvalidRecord),  # offsets are the broker's to give
        (patched(batch(b"a", b"b"), 57, 3, 4), InvalidRecord),  # more records than offsets
        (patched(batch(b"a", b"b"), 23, 5, 4), InvalidRecord),  # more offsets than records
        (patched(batch(), 57, 0, 4), InvalidRecord),  # no record
        (patched(batch(), 21, CONTROL_FLAG, 2), InvalidRecord),  # a control batch from a client
        (batch(producer_id=5, producer_epoch=0, base_sequence=-1), InvalidRecord),  # idempotent without a sequence
        (sized(1_001), MessageTooLarge),
    ],
)
def test_what_a_client_may_not_append(data: bytearray, error: type[Exception]) -> None:
    log = Broker().log(max_message_bytes=1_000)
    append(log)
    with pytest.raises(error):
        append(log, data)
    assert (log.log_end_offset, offsets_of(log)) == (1, [0]), "all or nothing"


def test_a_batch_that_fits_no_segment_is_refused() -> None:
    log = Broker().log(internal_segment_bytes=500)
    append(log, sized(500))
    with pytest.raises(RecordListTooLarge):
        append(log, sized(501))


@pytest.mark.parametrize(
    ("timestamps", "is_taken"),
    [
        ([NOW_MS], True),
        ([NOW_MS - HOUR_MS], True),  # just old enough
        ([NOW_MS - HOUR_MS - 1], False),
        ([NOW_MS + 1_000], True),
        ([NOW_MS + 1_001], False),
        ([NOW_MS, NOW_MS - HOUR_MS - 1], True),  # hidden behind a good header: only full validation sees it
        ([-1], True),  # no timestamp
    ],
)
def test_timestamps_are_judged_by_the_batch_header(timestamps: list[int], is_taken: bool) -> None:
    log = Broker().log(message_timestamp_before_max_ms=HOUR_MS, message_timestamp_after_max_ms=1_000)
    data = build_batch([NewRecord(b"k", b"v", (), timestamp) for timestamp in timestamps])
    if is_taken:
        assert append(log, data).log_append_time == -1
    else:
        with pytest.raises(InvalidTimestamp):
            append(log, data)


def test_full_validation_looks_at_every_record_and_names_the_bad_ones() -> None:
    log = Broker().log(message_timestamp_before_max_ms=HOUR_MS, barnabas_record_validation="full")
    data = build_batch([NewRecord(b"k", b"v", (), timestamp) for timestamp in (NOW_MS, NOW_MS - HOUR_MS - 1)])
    with pytest.raises(InvalidTimestamps) as refused:
        append(log, data)
    assert [error.batch_index for error in refused.value.record_errors] == [1]


def test_a_header_that_lies_about_its_largest_timestamp_is_set_right_when_the_records_are_read() -> None:
    log = Broker().log(barnabas_record_validation="full")
    data = patched(batch(timestamp=NOW_MS), 35, NOW_MS + 5, 8)
    append(log, data)
    (header,) = headers_of(log)
    assert (header.max_timestamp, header.crc) == (NOW_MS, crc_of(memoryview(data)))


def test_log_append_time_is_the_brokers_and_covers_every_record() -> None:
    log = Broker().log(message_timestamp_type="LogAppendTime")
    data = batch(b"a", b"b", timestamp=5)
    info = append(log, data, now_ms=NOW_MS + 9)
    assert info.log_append_time == NOW_MS + 9
    stored = present(log.read(0, 1 << 20, max_offset=2)).read()
    assert header_at(stored).crc == crc_of(memoryview(stored))
    assert [record.timestamp for record in iter_records(stored, max_decompressed_bytes=1 << 20)] == [NOW_MS + 9] * 2


def test_a_producer_may_not_claim_log_append_time() -> None:
    log = Broker().log(message_timestamp_type="LogAppendTime")
    with pytest.raises(InvalidTimestamp):
        append(log, patched(batch(), 21, LOG_APPEND_TIME_FLAG, 2))


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
def test_a_compacted_topic_takes_no_record_without_a_key(compression: CompressionType) -> None:
    log = Broker().log(cleanup_policy=("compact",))
    append(log, batch(b"a", b"b", compression=compression))
    with pytest.raises(InvalidRecords):
        append(log, batch(b"a", key=None, compression=compression))


def test_the_brokers_own_appends_may_hold_several_batches_and_control_batches() -> None:
    log = Broker().log()
    control = build_control_batch([(ControlType.LEADER_CHANGE, b"x")], timestamp=NOW_MS)
    data = memoryview(batch(b"a", b"b") + control + batch(b"c"))
    info = log.append_as_coordinator(data, leader_epoch=4, now_ms=NOW_MS)
    assert (info.base_offset, info.last_offset) == (0, 3)
    assert [header.base_offset for header in headers_of(log)] == [0, 2, 3]
    assert {header.partition_leader_epoch for header in headers_of(log)} == {4}


def test_a_duplicate_is_answered_with_its_first_offsets_and_not_stored() -> None:
    log = Broker().log()
    for sequence in range(6):
        append(log, batch(b"v", producer_id=9, producer_epoch=0, base_sequence=sequence))
    info = append(log, batch(b"v", producer_id=9, producer_epoch=0, base_sequence=4))
    assert (info.base_offset, info.last_offset, info.duplicate) == (4, 4, True)
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0))
    assert log.log_end_offset == 6


def calls_during(action: Callable[[], object]) -> list[str]:
    """The names of all Python functions that are called."""
    names: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize("compression", list(CompressionType))
def test_no_record_is_parsed_on_the_way_in_or_out(compression: CompressionType) -> None:
    log = Broker().log()

    def produced(sequence: int, *values: bytes) -> bytearray:
        return batch(*values, compression=compression, producer_id=3, producer_epoch=0, base_sequence=sequence)

    first, small = (produced(sequence, b"v") for sequence in (0, 1))
    large = produced(2, *[b"value"] * 1_000)
    append(log, first)
    calls = calls_during(lambda: append(log, small))
    assert calls == calls_during(lambda: append(log, large)), "a thousand records cost what one costs"
    assert not {"iter_records", "_record_at", "records_data", "decompress", "compress"} & set(calls)
    reading = calls_during(lambda: log.read(1, 1 << 20, max_offset=log.log_end_offset))
    assert not {"iter_records", "_record_at", "records_data", "decompress"} & set(reading)


# ---- a disk that does not play along


def test_a_full_disk_refuses_the_append_and_leaves_no_torn_batch() -> None:
    broker = Broker()
    log = broker.log()
    append(log)
    size = broker.files.file_size(log.segments.active.path)
    broker.disk.capacity_bytes = broker.disk.used_bytes() + 30
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="full"):
            append(log)
    assert broker.files.file_size(log.segments.active.path) == size
    assert offsets_of(log) == [0], "reads go on"
    broker.disk.capacity_bytes = 1 << 40
    assert append(log).base_offset == 1, "and so do appends once there is room"
    assert not log.is_offline
    broker.kill()
    assert offsets_of(broker.log()) == [0, 1]


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_batch_that_could_not_be_written_is_left_as_it_was_sent(timestamp_type: str) -> None:
    """Who tries once more, as the general way of a Produce does after the quick one, must get the same refusal."""
    broker = Broker()
    log = broker.log(message_timestamp_type=timestamp_type)
    append(log)
    broker.disk.capacity_bytes = broker.disk.used_bytes() + 30
    sent = batch()
    buffer = memoryview(bytearray(sent))
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="full"):
            append(log, buffer)
        assert buffer == sent


def test_a_full_disk_does_not_remember_the_producers_batch() -> None:
    broker = Broker()
    log = broker.log()
    producer: BatchFields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    broker.disk.capacity_bytes = broker.disk.used_bytes() + 30
    with pytest.raises(KafkaStorageError):
        append(log, batch(**producer))
    broker.disk.capacity_bytes = 1 << 40
    assert not append(log, batch(**producer)).duplicate


def test_below_the_floor_of_free_space_nothing_is_appended_and_reads_go_on() -> None:
    broker = Broker(free_bytes_min=1_000)
    log = broker.log()
    append(log)
    broker.disk.capacity_bytes = broker.disk.used_bytes() + 999
    with pytest.raises(KafkaStorageError, match="1,000 bytes free"):
        append(log, now_ms=NOW_MS + 2_000)
    assert offsets_of(log) == [0]
    broker.disk.capacity_bytes = 1 << 40
    append(log, now_ms=NOW_MS + 4_000)


def test_a_clock_that_is_set_back_does_not_prolong_the_shortage() -> None:
    broker = Broker(free_bytes_min=1_000)
    log = broker.log()
    broker.disk.capacity_bytes = broker.disk.used_bytes() + 999
    with pytest.raises(KafkaStorageError):
        append(log)
    broker.disk.capacity_bytes = 1 << 40
    append(log, now_ms=NOW_MS - 3_600_000)


def test_without_a_floor_the_size_of_an_append_does_not_matter() -> None:
    log_dir = Broker(free_bytes_min=0).log().log_dir
    log_dir.reserve(1 << 30, NOW_MS)
    log_dir.reserve(1, NOW_MS)


def test_a_disk_whose_free_space_cannot_be_read_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(log_dirs=("/one", "/two"), free_bytes_min=1_000)
    log = broker.log()
    other = broker.log(log.topic_partition._replace(partition=1))

    def fail(_path: str) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(broker.files, "free_bytes", fail)
        with pytest.raises(KafkaStorageError, match="is offline"):
            append(log)
        broken.setattr(broker.files, "total_bytes", fail)
        other.log_dir.report_free_bytes_min()
    assert log.is_offline
    assert other.is_offline


@pytest.mark.parametrize(
    ("configured", "capacity_bytes", "expected"),
    [
        (-1, 1 << 40, 64 << 20),
        (-1, 512 << 20, 64 << 20),
        (-1, 64 << 20, 8 << 20),  # what a container has as /dev/shm
        (-1, 0, 0),
        (0, 64 << 20, 0),
        (1 << 30, 64 << 20, 1 << 30),  # as it was asked for, though nothing can be appended
    ],
)
def test_the_floor_follows_the_size_of_the_file_system_unless_it_is_configured(
    configured: int, capacity_bytes: int, expected: int
) -> None:
    broker = Broker(free_bytes_min=configured)
    log_dir = broker.log().log_dir
    broker.disk.capacity_bytes = capacity_bytes
    assert log_dir.free_bytes_min == expected
    log_dir.report_free_bytes_min()
    assert broker.report.having(f"keeps {expected:,} of {capacity_bytes:,} bytes free")


def test_an_io_error_takes_the_dir_offline_and_the_others_go_on() -> None:
    broker = Broker(log_dirs=("/one", "/two"))
    log = broker.log()
    other = broker.log(log.topic_partition._replace(partition=1))
    assert log.log_dir is not other.log_dir
    append(log)
    broker.disk.failing_writes.add(log.path)
    with pytest.raises(KafkaStorageError):
        append(log)
    assert log.is_offline
    for refused in (lambda: append(log), lambda: log.read(0, 100, max_offset=1)):
        with pytest.raises(KafkaStorageError, match="offline"):
            refused()
    assert append(other).base_offset == 0
    assert broker.report.having(f"error log dir {log.log_dir.path} goes offline")
