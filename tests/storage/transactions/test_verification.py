"""A transaction begins on a partition only with the guard of its verification (KIP-890), and ends as Kafka says."""

from collections.abc import Callable

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.storage.log import Log
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from tests.storage.logs import NOW_MS, Broker, batch, end_transaction

PRODUCER = 7
V1, V2 = 1, 2
EPOCH_MAX = 2**15 - 1
MINUTE_MS = 60_000
DAY_MS = 86_400_000


def ask(log: Log, epoch: int = 0, sequence: int = 0, *, is_v2: bool = False) -> VerificationGuard | None:
    return log.transactions.begin_verification(PRODUCER, epoch, sequence, is_v2=is_v2)


def write(
    log: Log, guard: VerificationGuard | None = None, *, epoch: int = 0, sequence: int = 0, transactional: bool = True
) -> int:
    sent = batch(producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
    return log.append(memoryview(sent), leader_epoch=0, now_ms=NOW_MS, guard=guard).base_offset


def begin(log: Log, *, epoch: int = 0, sequence: int = 0, is_v2: bool = False) -> None:
    write(log, ask(log, epoch, sequence, is_v2=is_v2), epoch=epoch, sequence=sequence)


def end(log: Log, *, epoch: int = 0, version: int = V1, coordinator_epoch: int = 3, is_committed: bool = True) -> int:
    marker = TransactionMarker(PRODUCER, epoch, coordinator_epoch, is_committed, version)
    return end_transaction(log, marker).base_offset


def refusal(action: Callable[[], object]) -> ErrorCode:
    try:
        action()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


# ---- guards


def test_the_first_batch_needs_the_guard_and_those_after_it_do_not() -> None:
    log = Broker().log()
    assert refusal(lambda: write(log)) == ErrorCode.INVALID_TXN_STATE
    guard = ask(log)
    assert refusal(lambda: write(log)) == ErrorCode.INVALID_TXN_STATE, "that it was asked for is not enough"
    write(log, guard)
    assert ask(log, sequence=1) is None, "there is nothing to ask"
    write(log, sequence=1)


def test_the_batches_that_wait_for_one_answer_share_its_guard() -> None:
    log = Broker().log()
    guard = ask(log)
    assert ask(log, sequence=1) is guard
    write(log, guard)
    write(log, guard, sequence=1)


def test_a_batch_that_comes_after_the_marker_finds_no_other_transaction_to_slip_into() -> None:
    """It was verified and held up; its transaction was aborted, and the next one is being verified: the ABA problem."""
    log = Broker().log()
    late = ask(log)
    end(log, is_committed=False)
    assert refusal(lambda: write(log, late)) == ErrorCode.INVALID_TXN_STATE
    next_one = ask(log)
    assert next_one is not late
    assert refusal(lambda: write(log, late)) == ErrorCode.INVALID_TXN_STATE
    write(log, next_one)


@pytest.mark.parametrize(
    ("is_v2", "marker_epoch", "expected"),
    [
        (True, 1, ErrorCode.NONE),  # the marker has the epoch of the next transaction, which has asked already
        (True, 2, ErrorCode.INVALID_PRODUCER_EPOCH),  # that of one after it: this one is over, too
        (False, 1, ErrorCode.INVALID_TXN_STATE),  # by the old rules the same epoch is the same transaction
    ],
)
def test_a_marker_leaves_only_the_guard_of_the_next_transaction(
    is_v2: bool, marker_epoch: int, expected: ErrorCode
) -> None:
    log = Broker().log()
    begin(log, is_v2=is_v2)
    guard = ask(log, epoch=1, is_v2=is_v2)
    assert guard is not None, "a newer epoch has another transaction to ask for"
    end(log, epoch=marker_epoch, version=V2 if is_v2 else V1)
    assert refusal(lambda: write(log, guard, epoch=1)) == expected


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_marker_of_the_old_rules_leaves_no_guard(epoch: int) -> None:
    """A producer of the new rules has asked. Its transaction is ended by an EndTxn of the old ones, or the id belongs
    to a producer of the old rules by now, with an epoch for many transactions: the marker has the guard's epoch."""
    log = Broker().log()
    late = ask(log, is_v2=True)
    assert ask(log, epoch=epoch, is_v2=epoch == 0) is late
    end(log, epoch=epoch, version=V1, is_committed=False)
    assert refusal(lambda: write(log, late, epoch=epoch)) == ErrorCode.INVALID_TXN_STATE


def test_a_newer_epoch_that_asks_brings_its_own_rules() -> None:
    log = Broker().log()
    ask(log, is_v2=False)
    guard = ask(log, epoch=1, is_v2=True)
    end(log, epoch=1, version=V2)
    write(log, guard, epoch=1)


def test_an_old_epoch_is_refused_before_anybody_is_asked() -> None:
    log = Broker().log()
    begin(log, epoch=1)
    assert refusal(lambda: ask(log, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: write(log, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_while_a_lower_sequence_is_to_come_a_higher_one_must_not_be_the_first() -> None:
    log = Broker().log()
    guard = ask(log, sequence=5)
    assert ask(log, sequence=3) is guard
    assert refusal(lambda: write(log, guard, sequence=5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, guard, sequence=3)


def test_a_newer_epoch_that_asks_begins_its_own_sequences() -> None:
    log = Broker().log()
    guard = ask(log, sequence=3)
    assert ask(log, epoch=1, sequence=9) is guard
    assert ask(log, epoch=0, sequence=0) is guard, "an old one changes nothing"
    write(log, guard, epoch=1, sequence=9)


@pytest.mark.parametrize(
    ("is_v2", "sequence", "expected"),
    [
        (False, 41, ErrorCode.NONE),  # its records may have been deleted
        (True, 41, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # its epoch is as young as its transaction
        (True, 0, ErrorCode.NONE),
    ],
)
def test_the_first_sequence_of_a_producer_nobody_remembers(is_v2: bool, sequence: int, expected: ErrorCode) -> None:
    log = Broker().log()
    guard = ask(log, sequence=sequence, is_v2=is_v2)
    assert refusal(lambda: write(log, guard, sequence=sequence)) == expected


def test_a_batch_that_is_sent_again_is_a_duplicate_even_after_its_marker() -> None:
    log = Broker().log()
    begin(log)
    end(log)
    assert write(log) == 0


def test_a_producer_does_not_write_outside_its_open_transaction() -> None:
    log = Broker().log()
    begin(log)
    outside = refusal(lambda: write(log, sequence=1, transactional=False))
    assert outside == ErrorCode.INVALID_TXN_STATE
    end(log)
    write(log, sequence=1, transactional=False)


def test_a_guard_that_nobody_comes_back_for_expires() -> None:
    broker = Broker()
    log = broker.log()
    guard = ask(log)
    broker.clock.advance(3 * DAY_MS)
    assert refusal(lambda: write(log, guard)) == ErrorCode.INVALID_TXN_STATE


def test_the_brokers_own_batches_need_the_guard_as_well() -> None:
    log = Broker().log()
    offsets = batch(producer_id=PRODUCER, producer_epoch=0, transactional=True)

    def write_own(guard: VerificationGuard | None) -> int:
        return log.append_as_coordinator(memoryview(bytearray(offsets)), 0, NOW_MS, guard).base_offset

    assert refusal(lambda: write_own(None)) == ErrorCode.INVALID_TXN_STATE
    write_own(ask(log, sequence=-1))
    write_own(None)


# ---- markers


def test_a_transaction_that_nobody_ends_is_reported_once() -> None:
    broker = Broker()
    log = broker.log()
    begin(log)
    broker.clock.advance(19 * MINUTE_MS)
    assert broker.report.having("still open") == []
    broker.clock.advance(60 * MINUTE_MS)
    (warning,) = broker.report.having("still open")
    assert "producer 7 began at offset 0" in warning
    end(log, is_committed=False)
    begin(log, sequence=1)
    broker.clock.advance(60 * MINUTE_MS)
    assert len(broker.report.having("still open")) == 2, "another one"


@pytest.mark.parametrize(
    ("version", "marker_epoch", "expected"),
    [
        (V1, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (V1, 5, ErrorCode.NONE),  # by the old rules a transaction ends in its own epoch
        (V1, 6, ErrorCode.NONE),  # or in the next, if its producer is to be fenced
        (V2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (V2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),  # the marker of the transaction before this one, too late
        (V2, 6, ErrorCode.NONE),
    ],
)
def test_the_marker_of_an_open_transaction(version: int, marker_epoch: int, expected: ErrorCode) -> None:
    log = Broker().log()
    begin(log, epoch=5)
    assert refusal(lambda: end(log, epoch=marker_epoch, version=version)) == expected


@pytest.mark.parametrize("version", [V1, V2])
def test_a_marker_that_is_sent_again_is_written_again(version: int) -> None:
    """Refused, its coordinator would ask for ever (KAFKA-19999)."""
    log = Broker().log()
    begin(log, epoch=5)
    end(log, epoch=6, version=version)
    assert refusal(lambda: end(log, epoch=6, version=version)) == ErrorCode.NONE
    assert log.log_end_offset == 3


def test_the_last_epoch_there_is_may_end_a_transaction_of_its_own() -> None:
    """Kafka lets it pass, because older brokers may have begun one there."""
    log = Broker().log()
    begin(log, epoch=EPOCH_MAX)
    assert refusal(lambda: end(log, epoch=EPOCH_MAX, version=V2)) == ErrorCode.NONE


@pytest.mark.parametrize("version", [V1, V2])
def test_a_coordinator_that_has_been_replaced_ends_nothing(version: int) -> None:
    log = Broker().log()
    begin(log)
    end(log, epoch=1, coordinator_epoch=5, version=version)
    begin(log, epoch=1)
    late = refusal(lambda: end(log, epoch=2, coordinator_epoch=4, version=version))
    assert late == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal(lambda: end(log, epoch=2, coordinator_epoch=5, version=version)) == ErrorCode.NONE


def test_a_partition_that_was_added_and_never_written_to_takes_its_marker() -> None:
    log = Broker().log()
    end(log, epoch=4, is_committed=False)
    assert log.log_end_offset == 1
    assert log.aborted.between(0, 1) == [], "there was nothing to abort"
    assert refusal(lambda: ask(log, epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_begin_anew_after_a_marker_with_a_new_epoch() -> None:
    log = Broker().log()
    begin(log)
    end(log, epoch=1, version=V2)
    guard = ask(log, epoch=1, sequence=1, is_v2=True)
    assert refusal(lambda: write(log, guard, epoch=1, sequence=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    begin(log, epoch=1, is_v2=True)
