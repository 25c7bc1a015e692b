"""Idempotence, as Kafka decides it."""

from collections.abc import Callable
from struct import Struct

import pytest

from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.batch_header import BatchHeader, header_at
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import ErrorCode, InvalidProducerEpoch, KafkaError, OutOfOrderSequence
from barnabas.protocol.records import ControlType
from barnabas.storage.producer_snapshot import CorruptSnapshot, read_snapshot, snapshot_of
from barnabas.storage.producer_state import (
    SEQUENCE_MAX,
    ProducerState,
    end_transaction,
)
from barnabas.storage.transactions.guards import VerificationGuard

DAY_MS = 86_400_000


def header(
    sequence: int = 0,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = 7,
    timestamp: int = 1_000,
    transactional: bool = False,
) -> BatchHeader:
    records = [(None, b"v", (), timestamp)] * count
    return header_at(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def asked(state: ProducerState, batch: BatchHeader, *, is_v2: bool = False) -> VerificationGuard | None:
    """The guard of a batch about which the coordinator was asked."""
    if not batch.is_transactional:
        return None
    return state.begin_verification(
        batch.producer_id, batch.producer_epoch, batch.base_sequence, is_v2=is_v2, now_ms=batch.max_timestamp
    )


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    offset = 0
    for appended in headers:
        assert state.check(appended, asked(state, appended)) is None
        state.update(appended, offset)
        offset += appended.last_offset_delta + 1
    return state


def marker(epoch: int = 0, coordinator_epoch: int = 3) -> memoryview:
    return memoryview(
        build_end_transaction_marker(
            ControlType.COMMIT,
            coordinator_epoch=coordinator_epoch,
            producer_id=7,
            producer_epoch=epoch,
            timestamp=2_000,
        )
    )


FIRST_TEN = [header(sequence) for sequence in range(10)]


@pytest.mark.parametrize(
    ("before", "batch", "outcome"),
    [
        ([], header(0), "appended"),  # a new producer
        ([], header(41), "appended"),  # an unknown one may begin anywhere: its records may have been deleted
        ([header(0)], header(1), "appended"),
        ([header(0, count=3)], header(3), "appended"),  # a batch of three takes three sequences
        ([header(0)], header(0), "duplicate of 0"),
        ([header(0, count=3)], header(0, count=3), "duplicate of 0"),
        ([header(0, count=3)], header(0, count=2), "out of order"),  # part of a batch is no duplicate
        ([header(0, count=3)], header(1, count=2), "out of order"),
        (FIRST_TEN, header(5), "duplicate of 5"),  # the last five are remembered
        (FIRST_TEN, header(4), "out of order"),  # the sixth from the end is not
        ([header(0)], header(2), "out of order"),  # a gap
        ([header(3)], header(1), "out of order"),  # back in time
        ([header(0), header(1)], header(0, epoch=1), "appended"),  # a new epoch begins at 0
        ([header(0), header(1)], header(2, epoch=1), "out of order"),
        ([header(0, epoch=1)], header(1, epoch=0), "fenced"),  # the old incarnation is too late
        ([header(0, epoch=1)], header(0, epoch=0), "fenced"),  # even with what would be a duplicate of nothing
        ([header(0, epoch=0), header(0, epoch=1)], header(0, epoch=1), "duplicate of 1"),
        ([header(SEQUENCE_MAX)], header(0), "appended"),  # sequences wrap
        ([header(SEQUENCE_MAX - 1, count=3)], header(1), "appended"),  # also inside a batch
        ([header(SEQUENCE_MAX - 1, count=3)], header(SEQUENCE_MAX - 1, count=3), "duplicate of 0"),
        ([header(0), header(0, producer_id=8)], header(1), "appended"),  # producers do not disturb one another
    ],
)
def test_a_batch_is_appended_repeated_or_refused(before: list[BatchHeader], batch: BatchHeader, outcome: str) -> None:
    assert outcome_of(state_after(*before), batch) == outcome


def outcome_of(state: ProducerState, batch: BatchHeader) -> str:
    try:
        duplicate = state.check(batch)
    except OutOfOrderSequence:
        return "out of order"
    except InvalidProducerEpoch:
        return "fenced"
    return "appended" if duplicate is None else f"duplicate of {duplicate.first_offset}"


def test_the_brokers_own_batches_are_checked_for_their_epoch_only() -> None:
    state = state_after(header(0, epoch=2))
    state.check_own(header(-1, epoch=2))
    with pytest.raises(InvalidProducerEpoch):
        state.check_own(header(-1, epoch=1))


def test_the_offsets_of_a_duplicate_are_those_it_got_first() -> None:
    state = ProducerState()
    state.update(header(0, count=3, timestamp=5), base_offset=100)
    found = state.check(header(0, count=3))
    assert found is not None
    assert (found.first_offset, found.last_offset, found.timestamp) == (100, 102, 5)


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    state = state_after(header(0), header(1, transactional=True), header(2, transactional=True))
    began_at = state.transactions.first_ongoing_offset
    assert began_at == 1
    with pytest.raises(KafkaError) as refused:
        state.check(header(3))
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    end_transaction(state, header_at(marker()), marker(), 3)
    assert state.transactions.first_ongoing_offset is None
    assert state.check(header(3)) is None
    assert dict(state.entries())[7].coordinator_epoch == 3


def test_a_marker_with_a_new_epoch_fences_the_old_one_and_sequences_begin_anew() -> None:
    state = state_after(header(0, transactional=True))
    end_transaction(state, header_at(marker(epoch=1)), marker(epoch=1), 1)
    assert outcome_of(state, header(1)) == "fenced"
    assert outcome_of(state, header(0, epoch=1)) == "appended"


def test_producers_expire_unless_a_transaction_is_open() -> None:
    state = state_after(header(0, timestamp=0), header(0, producer_id=8, timestamp=0, transactional=True))
    assert state.remove_expired(DAY_MS - 1, DAY_MS) == 0
    assert state.remove_expired(DAY_MS, DAY_MS) == 1
    assert [producer_id for producer_id, _ in state.entries()] == [8]


def test_a_snapshot_holds_the_last_five_batches_of_each_producer() -> None:
    state = state_after(*FIRST_TEN, header(0, producer_id=8, epoch=4, count=2, timestamp=9))
    loaded = ProducerState()
    loaded.load(12, read_snapshot(snapshot_of(state)), now_ms=0, expiration_ms=DAY_MS)
    for sequence in range(5, 10):
        assert outcome_of(loaded, header(sequence)) == f"duplicate of {sequence}"
    assert outcome_of(loaded, header(4)) == "out of order"
    assert outcome_of(loaded, header(10)) == "appended"
    assert outcome_of(loaded, header(2, producer_id=8, epoch=4)) == "appended"
    assert (loaded.end_offset, loaded.snapshot_offset) == (12, 12)


def test_who_takes_the_last_row_of_each_producer_as_kafka_does_has_its_last_batch() -> None:
    state = state_after(*FIRST_TEN, header(0, producer_id=8, timestamp=0, transactional=True))
    rows = list(Struct(">qhiqiqiq").iter_unpack(snapshot_of(state)[10:]))
    assert [(row[2], row[3]) for row in rows if row[0] == 7] == [(n, n) for n in range(5, 10)]
    assert {row[0]: row[7] for row in rows} == {7: -1, 8: 10}
    assert all(row[5] <= rows[4][5] for row in rows[:4])


def test_batches_of_an_epoch_that_is_over_are_no_duplicates() -> None:
    old, new = state_after(header(0), header(1)), state_after(header(0, epoch=1))
    both = snapshot_of(old)[10:] + snapshot_of(new)[10:]
    head = Struct(">hIi").pack(1, crc32c(Struct(">i").pack(3) + both), 3)
    ((_, entry),) = read_snapshot(head + both)
    assert (entry.producer_epoch, [batch.last_sequence for batch in entry.batches]) == (1, [0])


def test_an_expired_producer_is_not_loaded() -> None:
    loaded = ProducerState()
    loaded.load(1, read_snapshot(snapshot_of(state_after(header(0, timestamp=0)))), now_ms=DAY_MS, expiration_ms=DAY_MS)
    assert loaded.by_id == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:5],  # not even a header
        lambda data: data[:-1],  # torn
        lambda data: bytes(len(data)),  # zeros, as after a power cut
        lambda data: b"\0\2" + data[2:],  # a version of the future
        lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],  # a flipped bit
    ],
)
def test_a_damaged_snapshot_is_told_from_a_good_one(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorruptSnapshot):
        read_snapshot(damage(snapshot_of(state_after(header(0)))))
