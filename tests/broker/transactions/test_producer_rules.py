"""What InitProducerId makes of a transaction, and how producers are fenced: every state, epoch and version."""

from collections.abc import Callable

import pytest

from barnabas.broker.transactions import rules
from barnabas.broker.transactions.transaction import MAX_EPOCH, ProducerIdAndEpoch, State, Transaction
from tests.broker.transactions.rule_cases import (
    BUSY,
    EMPTY,
    EPOCH,
    EXHAUSTED,
    FENCED,
    IDLE,
    NEW_ID,
    NOW_MS,
    ONGOING,
    OTHER_ID,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS_ID,
    PRODUCER_ID,
    coordination,
    no_id,
    one_id,
    outcome,
    transaction,
)

Expected = tuple[int, int] | None


def initialized(
    before: Transaction, expected: Expected, *, version: int = 2, ids: Callable[[], int] = one_id
) -> Transaction:
    producer = None if expected is None else ProducerIdAndEpoch(*expected)
    return rules.initialize(before, 1_234, producer, coordination(version, ids))


def initialize(before: Transaction, expected: Expected, version: int = 2) -> str:
    return outcome(lambda: initialized(before, expected, version=version), before)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (None, "Empty s+1"),
        ((PRODUCER_ID, EPOCH), "Empty s+1"),
        ((PRODUCER_ID, EPOCH - 1), "Empty s"),  # the epoch before: its answer was lost
        ((PRODUCER_ID, EPOCH - 2), FENCED),
        ((PRODUCER_ID, EPOCH + 1), FENCED),
        ((OTHER_ID, EPOCH), FENCED),
        ((PREVIOUS_ID, EPOCH), FENCED),  # its epochs are not used up
        ((PREVIOUS_ID, EXHAUSTED), FENCED),  # the epoch before was another
    ],
)
def test_without_a_transaction(state: State, expected: Expected, answer: str) -> None:
    assert initialize(transaction(state, previous_producer_id=PREVIOUS_ID), expected) == answer


@pytest.mark.parametrize("state", IDLE)
def test_no_transaction_is_left_behind(state: State) -> None:
    after = initialized(transaction(state), None)
    assert (after.timeout_ms, after.partitions, after.start_timestamp_ms) == (1_234, frozenset(), -1)


def test_who_has_said_which_epoch_it_had_may_ask_for_the_same_answer_again() -> None:
    assert initialized(transaction(EMPTY), None).last_producer_epoch == -1
    assert initialized(transaction(EMPTY), (PRODUCER_ID, EPOCH)).last_producer_epoch == EPOCH


@pytest.mark.parametrize("expected", [None, (PRODUCER_ID, EPOCH), (OTHER_ID, EPOCH)])
@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_while_markers_travel(state: State, expected: Expected) -> None:
    assert initialize(transaction(state), expected) == BUSY


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_is_aborted_in_the_next_epoch(version: int) -> None:
    assert initialize(transaction(ONGOING), None, version) == "PrepareAbort s+1"
    assert initialize(transaction(ONGOING), (PRODUCER_ID, EPOCH), version) == "PrepareAbort s+1"
    assert initialize(transaction(ONGOING), (OTHER_ID, EPOCH), version) == FENCED


@pytest.mark.parametrize("expected", [None, (OTHER_ID, 17)])
def test_a_new_id_begins_in_the_first_epoch_whoever_asks(expected: Expected) -> None:
    """One that had a producer id before has expired."""
    after = initialized(Transaction("tx", PRODUCER_ID, 60_000), expected)
    assert (after.producer, after.last_producer_epoch) == ((PRODUCER_ID, 0), -1)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (None, "Empty of a new id in 0"),
        ((PRODUCER_ID, EXHAUSTED), "Empty of a new id in 0"),
        ((PRODUCER_ID, EXHAUSTED - 1), "Empty s"),
        ((PRODUCER_ID, EXHAUSTED - 2), FENCED),
        ((OTHER_ID, EXHAUSTED), FENCED),
    ],
)
def test_in_an_exhausted_epoch(state: State, expected: Expected, answer: str) -> None:
    assert initialize(transaction(state, EXHAUSTED), expected) == answer


def test_a_producer_whose_id_was_replaced_may_ask_again() -> None:
    replaced = initialized(transaction(EMPTY, EXHAUSTED), (PRODUCER_ID, EXHAUSTED))
    assert (replaced.producer, replaced.last_producer_epoch) == ((NEW_ID, 0), EXHAUSTED)
    assert initialized(replaced, (PRODUCER_ID, EXHAUSTED)).producer == (NEW_ID, 0)


def test_without_a_producer_id_at_hand_an_exhausted_one_is_not_replaced() -> None:
    before = transaction(EMPTY, EXHAUSTED)
    assert outcome(lambda: initialized(before, None, ids=no_id), before) == "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.mark.parametrize(
    ("version", "epoch", "fencing_epoch", "next_id", "then"),
    [
        (0, EPOCH, EPOCH + 1, -1, (PRODUCER_ID, EPOCH + 1)),
        (1, EXHAUSTED, MAX_EPOCH, -1, (PRODUCER_ID, MAX_EPOCH)),  # the next InitProducerId replaces the id
        (1, MAX_EPOCH, MAX_EPOCH, -1, (PRODUCER_ID, MAX_EPOCH)),
        (2, EPOCH, EPOCH + 1, -1, (PRODUCER_ID, EPOCH + 1)),
        (2, EXHAUSTED, MAX_EPOCH, NEW_ID, (NEW_ID, 0)),
        (2, MAX_EPOCH, MAX_EPOCH, NEW_ID, (NEW_ID, 0)),
    ],
)
@pytest.mark.parametrize("client_version", [0, 2])
def test_a_fence_raises_the_epoch_once_by_the_rules_of_the_cluster(
    client_version: int, version: int, epoch: int, fencing_epoch: int, next_id: int, then: tuple[int, int]
) -> None:
    before = transaction(ONGOING, epoch, client_transaction_version=client_version)
    after = rules.fence(before, coordination(version))
    assert (after.state, after.producer_epoch, after.next_producer_id) == (PREPARE_ABORT, fencing_epoch, next_id)
    assert after.client_transaction_version == (2 if version == 2 else 0)
    assert after.completed(NOW_MS).producer == then


def test_after_a_fence_in_the_last_epoch_the_next_producer_gets_another_id() -> None:
    complete = rules.fence(transaction(ONGOING, EXHAUSTED), coordination(1)).completed(NOW_MS)
    assert initialize(complete, None) == "Empty of a new id in 0"
    assert initialize(complete, (PRODUCER_ID, EXHAUSTED)) == FENCED
