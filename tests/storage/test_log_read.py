"""Reading: whole batches, at least one, never beyond what may be seen, found without walking over the log."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import HEADER_BYTES, crc_of, header_at, iter_batches, set_header
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import MessageTooLarge, OffsetOutOfRange
from barnabas.protocol.records import Header, NewRecord
from barnabas.storage.log import Log
from barnabas.storage.validation import RECORDS_READ_MAX
from tests.storage.logs import NOW_MS, Broker, append, batch, headers_of, offsets_of, present, sized


def filled(count: int = 100, size: int = 200, **config: object) -> tuple[Broker, Log]:
    broker = Broker()
    log = broker.log(**config)
    for _ in range(count):
        append(log, sized(size))
    broker.settle()
    return broker, log


@pytest.mark.parametrize(
    ("offset", "max_bytes", "max_offset", "expected"),
    [
        (0, 600, 10, [0, 1, 2]),  # as many as fit
        (0, 599, 10, [0, 1]),  # never a part of one
        (4, 1, 10, [4]),  # one even above the limit
        (4, 0, 10, [4]),
        (8, 10_000, 10, [8, 9]),  # to the end
        (0, 10_000, 3, [0, 1, 2]),  # not beyond what is committed
        (2, 10_000, 3, [2]),
        (3, 10_000, 3, None),  # nothing there yet
        (10, 10_000, 10, None),
        (5, 10_000, 3, None),  # behind what is committed, but in the log
        (8, 10_000, 99, [8, 9]),  # a max_offset of the future is the log's end
    ],
)
def test_a_read_returns_whole_batches(offset: int, max_bytes: int, max_offset: int, expected: list[int] | None) -> None:
    _, log = filled(10)
    for _ in range(2):  # the second time the log remembers where the first one ended
        found = log.read(offset, max_bytes, max_offset=max_offset)
        assert (found and [header.base_offset for _, header in iter_batches(found.read())]) == expected


def test_without_at_least_one_a_batch_that_does_not_fit_is_not_returned() -> None:
    _, log = filled(3)
    assert log.read(0, 199, max_offset=3, at_least_one=False) is None
    assert present(log.read(0, 200, max_offset=3, at_least_one=False)).size == 200


def test_an_offset_inside_a_batch_returns_the_whole_batch() -> None:
    log = Broker().log()
    append(log, batch(*[b"v"] * 5))
    append(log, batch(*[b"v"] * 5))
    for offset in range(10):
        (first, *_) = headers_of(log, offset)
        assert first.base_offset == offset // 5 * 5


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_an_offset_outside_the_log_is_refused(offset: int) -> None:
    _, log = filled(10)
    log.delete_records(5)
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 100, max_offset=10)


@pytest.mark.parametrize("index_interval_bytes", [0, 300, 4_096, 1 << 30])
@pytest.mark.parametrize("internal_segment_bytes", [700, 3_000, 1 << 30])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_every_batch_is_found_whatever_the_index_and_the_segments(
    index_interval_bytes: int, internal_segment_bytes: int, is_reopened: bool
) -> None:
    random = Random(7)
    broker = Broker()
    log = broker.log(index_interval_bytes=index_interval_bytes, internal_segment_bytes=internal_segment_bytes)
    bases = [append(log, batch(*[bytes(random.randrange(90))] * random.randint(1, 4))).base_offset for _ in range(60)]
    broker.settle()
    if is_reopened:
        broker.restart()
        log = broker.log()
    assert offsets_of(log) == bases
    for _ in range(300):
        offset, max_offset = random.randrange(log.log_end_offset), random.randrange(log.log_end_offset + 1)
        holding = max(base for base in bases if base <= offset)
        found = log.read(offset, random.choice((1, 150, 600, 5_000)), max_offset=max_offset)
        if offset >= max_offset:
            assert found is None
        elif found is not None:
            headers = [header for _, header in iter_batches(found.read())]
            assert headers[0].base_offset == holding
            assert headers[-1].next_offset <= max_offset or len(headers) == 1


def test_a_tailing_reader_costs_no_search() -> None:
    broker, log = filled(2_000)
    assert log.read(2_000, 1 << 20, max_offset=2_000) is None
    append(log, sized(200))
    broker.disk.preads.clear()
    assert present(log.read(2_000, 1 << 20, max_offset=2_001)).size == 200
    assert broker.disk.preads == [], "where the last read ended is known"


@pytest.mark.parametrize(
    ("records", "preads"),
    [
        (1, []),  # the index names the very offset
        (3, [61]),  # the index names the batch's last offset: its header is looked at
    ],
)
def test_a_reader_that_goes_on_finds_its_batch_without_a_walk(records: int, preads: list[int]) -> None:
    broker = Broker()
    log = broker.log()
    for _ in range(2_000):
        append(log, batch(*[bytes(40)] * records))
    end = log.log_end_offset
    first = present(log.read(0, 65_536, max_offset=end))
    next_offset = [header for _, header in iter_batches(first.read())][-1].next_offset
    broker.disk.preads.clear()
    assert present(log.read(next_offset, 65_536, max_offset=end)).position == first.size
    assert broker.disk.preads == preads


def test_a_slice_stays_readable_when_its_segment_is_deleted_and_its_handle_is_gone() -> None:
    broker, log = filled(20, internal_segment_bytes=1_000, file_delete_delay_ms=0)
    found = present(log.read(0, 400, max_offset=20))
    expected = found.read()
    log.delete_records(20)
    broker.settle()
    broker.clock.advance(1)
    assert not broker.files.exists(f"{log.path}/00000000000000000000.log")
    broker.manager._cache.forget_all()
    assert found.read() == expected


# ---- timestamps


def timed(*timestamps: list[int], **config: object) -> Log:
    """One batch per list."""
    broker = Broker()
    log = broker.log(message_timestamp_after_max_ms=1 << 50, **config)
    for of_batch in timestamps:
        append(log, build_batch([NewRecord(b"k", b"v" * 50, (), timestamp) for timestamp in of_batch]))
    broker.settle()
    return log


@pytest.mark.parametrize("internal_segment_bytes", [200, 1 << 30])
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (10, 0)),  # before all: the first record
        (10, (10, 0)),
        (15, (30, 2)),  # the first at or after, not the nearest
        (25, (30, 2)),
        (31, (50, 4)),  # out of order: 20 at offset 3 is earlier than what is sought
        (50, (50, 4)),
        (51, None),  # after all
    ],
)
def test_the_first_record_at_or_after_a_timestamp(
    timestamp: int, expected: tuple[int, int] | None, internal_segment_bytes: int
) -> None:
    log = timed([10, 10], [30, 20], [50], [40], internal_segment_bytes=internal_segment_bytes, index_interval_bytes=0)
    found = log.offset_for_timestamp(timestamp)
    assert (found and (found.timestamp, found.offset)) == expected


def test_a_timestamp_is_found_behind_the_log_start_only() -> None:
    log = timed([10], [20], [30])
    log.delete_records(1)
    assert present(log.offset_for_timestamp(5)).offset == 1


def max_timestamp(log: Log) -> tuple[int, int]:
    """The largest timestamp and its offset."""
    return present(log.offset_of_max_timestamp())[:2]


def test_the_largest_timestamp_is_found_where_it_first_stands() -> None:
    assert max_timestamp(timed([10], [50, 50], [50], [20])) == (50, 1)
    assert max_timestamp(timed([10], [40, 50], internal_segment_bytes=200)) == (50, 2)
    assert max_timestamp(timed([-1, -1], [-1])) == (-1, 0), "as Kafka answers where none has any"
    assert timed().offset_of_max_timestamp() is None


def test_a_timestamp_inside_a_compressed_batch_is_found() -> None:
    log = Broker().log()
    data = [NewRecord(b"k", b"v", (), NOW_MS + number) for number in range(100)]
    append(log, build_batch(data, compression=CompressionType.GZIP))
    assert present(log.offset_for_timestamp(NOW_MS + 42)).offset == 42


def many_records() -> bytearray:
    """One more than anybody may make the broker read."""
    records = [NewRecord(b"", b"", (), NOW_MS + number % 2) for number in range(RECORDS_READ_MAX + 1)]
    return build_batch(records, compression=CompressionType.GZIP)


def many_headers() -> bytearray:
    """One record with more headers than anybody may make the broker read, in a few hundred bytes."""
    headers = [Header("", None)] * (RECORDS_READ_MAX + 1)
    return build_batch([NewRecord(b"", b"", headers, NOW_MS)], compression=CompressionType.GZIP)


def unreadable_records() -> bytearray:
    """Junk where the compressed records should be, and a CRC that says all is well."""
    data = batch(b"v", timestamp=NOW_MS, compression=CompressionType.GZIP)
    data[HEADER_BYTES:] = bytes(len(data) - HEADER_BYTES)
    data[17:21] = crc_of(memoryview(data)).to_bytes(4, "big")
    return data


@pytest.mark.parametrize("make", [many_records, many_headers, unreadable_records])
def test_a_batch_that_cannot_be_searched_for_a_timestamp_is_answered_for_as_a_whole(
    make: Callable[[], bytearray],
) -> None:
    log = Broker().log()
    append(log, batch(b"earlier", timestamp=NOW_MS - 1))
    data = make()
    append(log, data)
    found = log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert found.offset == 1
    assert found.timestamp >= NOW_MS


def test_a_batch_of_too_many_records_is_refused_where_they_must_be_read_so_that_its_producer_splits_it() -> None:
    with pytest.raises(MessageTooLarge, match="250001 records"):
        append(Broker().log(cleanup_policy=("compact",)), many_records())


def test_so_is_one_whose_records_have_too_many_headers() -> None:
    with pytest.raises(MessageTooLarge, match="too many headers"):
        append(Broker().log(barnabas_record_validation="full"), many_headers())


def test_a_header_that_claims_a_later_record_than_there_is_answers_for_its_batch() -> None:
    """Else one lookup would go on to read all batches that claim the same."""
    log = Broker().log()
    for _ in range(3):
        data = batch(b"v", timestamp=NOW_MS)
        set_header(data, header_at(data)._replace(max_timestamp=NOW_MS + 1_000))
        set_header(data, header_at(data)._replace(crc=crc_of(memoryview(data))))
        append(log, data)
    assert present(log.offset_for_timestamp(NOW_MS + 500)).offset == 0


def test_leader_epochs_follow_the_appends() -> None:
    log = Broker().log()
    for leader_epoch in (0, 0, 2, 5):
        append(log, leader_epoch=leader_epoch)
    assert (log.latest_epoch, log.epoch_of_offset(1), log.epoch_of_offset(2)) == (5, 0, 2)
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(5) == (5, 4)
