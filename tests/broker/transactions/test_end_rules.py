"""What EndTxn makes of a transaction: every state, epoch, result and version. The tables are those of KIP-890."""

from collections.abc import Callable
from itertools import product

import pytest

from barnabas.broker.transactions import rules
from barnabas.broker.transactions.transaction import MAX_EPOCH, ProducerIdAndEpoch, State, Transaction
from tests.broker.transactions.rule_cases import (
    BUSY,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EPOCH,
    EPOCHS,
    EXHAUSTED,
    FENCED,
    IDLE,
    MAPPING,
    NEW_ID,
    NOW_MS,
    ONGOING,
    ORDERS,
    OTHER_ID,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PRODUCER_ID,
    STARTED_MS,
    WRONG,
    coordination,
    no_id,
    one_id,
    outcome,
    transaction,
)

BY_FIRST_RULES = {
    # in the stored epoch; in any other it is fenced
    (EMPTY, "abort"): WRONG,
    (EMPTY, "commit"): WRONG,
    (ONGOING, "abort"): "PrepareAbort s",
    (ONGOING, "commit"): "PrepareCommit s",
    (PREPARE_COMMIT, "abort"): BUSY,
    (PREPARE_COMMIT, "commit"): BUSY,
    (PREPARE_ABORT, "abort"): BUSY,
    (PREPARE_ABORT, "commit"): BUSY,
    (COMPLETE_COMMIT, "abort"): WRONG,
    (COMPLETE_COMMIT, "commit"): "again",
    (COMPLETE_ABORT, "abort"): "again",
    (COMPLETE_ABORT, "commit"): WRONG,
}
BY_SECOND_RULES = {
    # in s-1, which repeats what was asked before, in s, and in s+1
    (EMPTY, "abort"): (FENCED, "PrepareAbort s+1", FENCED),
    (EMPTY, "commit"): (FENCED, WRONG, FENCED),
    (ONGOING, "abort"): (FENCED, "PrepareAbort s+1", FENCED),
    (ONGOING, "commit"): (FENCED, "PrepareCommit s+1", FENCED),
    (PREPARE_COMMIT, "abort"): (BUSY, BUSY, BUSY),
    (PREPARE_COMMIT, "commit"): (BUSY, BUSY, BUSY),
    (PREPARE_ABORT, "abort"): (BUSY, BUSY, BUSY),
    (PREPARE_ABORT, "commit"): (BUSY, BUSY, BUSY),
    (COMPLETE_COMMIT, "abort"): (WRONG, "PrepareAbort s+1", FENCED),
    (COMPLETE_COMMIT, "commit"): ("again", WRONG, FENCED),
    (COMPLETE_ABORT, "abort"): ("again", "PrepareAbort s+1", FENCED),
    (COMPLETE_ABORT, "commit"): (WRONG, WRONG, FENCED),
}
EVERY_CASE = pytest.mark.parametrize(("state", "result", "epoch"), [*product(State, ("commit", "abort"), EPOCHS)])


def ended(
    before: Transaction | None,
    result: str,
    producer: tuple[int, int] = (PRODUCER_ID, EPOCH),
    *,
    client_version: int,
    ids: Callable[[], int] = one_id,
) -> Transaction | None:
    return rules.end(
        before,
        ProducerIdAndEpoch(*producer),
        is_commit=result == "commit",
        client_version=client_version,
        coordination=coordination(ids=ids),
    )


def by_first_rules(before: Transaction | None, result: str, producer: tuple[int, int] = (PRODUCER_ID, EPOCH)) -> str:
    return outcome(lambda: ended(before, result, producer, client_version=0), before)


def by_second_rules(before: Transaction | None, result: str, producer: tuple[int, int] = (PRODUCER_ID, EPOCH)) -> str:
    return outcome(lambda: ended(before, result, producer, client_version=2), before)


@EVERY_CASE
def test_the_first_rules(state: State, result: str, epoch: str) -> None:
    before, sent = transaction(state), EPOCH + EPOCHS[epoch]
    expected = BY_FIRST_RULES[state, result] if epoch == "s" else FENCED
    assert by_first_rules(before, result, (PRODUCER_ID, sent)) == expected
    assert by_first_rules(before, result, (OTHER_ID, sent)) == MAPPING


@EVERY_CASE
def test_the_second_rules(state: State, result: str, epoch: str) -> None:
    before, sent = transaction(state), EPOCH + EPOCHS[epoch]
    expected = BY_SECOND_RULES[state, result][list(EPOCHS).index(epoch)]
    assert by_second_rules(before, result, (PRODUCER_ID, sent)) == expected
    another = BUSY if before.is_ending else MAPPING  # the id that was promised may not be the stored one so far
    assert by_second_rules(before, result, (OTHER_ID, sent)) == another


def test_an_id_that_is_not_known_cannot_be_ended() -> None:
    assert by_first_rules(None, "commit") == by_second_rules(None, "commit") == MAPPING


def test_the_first_rules_end_what_the_second_have_begun() -> None:
    """A client that was restarted in another version, such as one that resumes a transaction it has stored."""
    after = ended(transaction(ONGOING, client_transaction_version=2), "commit", client_version=0)
    assert after is not None
    assert (after.state, after.producer_epoch, after.client_transaction_version) == (PREPARE_COMMIT, EPOCH, 0)
    complete = after.completed(NOW_MS)
    assert complete.producer == (PRODUCER_ID, EPOCH)
    assert by_first_rules(complete, "commit") == "again"


def test_what_is_ended_by_the_second_rules_tells_the_epoch_before() -> None:
    after = ended(transaction(ONGOING), "commit", client_version=2)
    assert after is not None
    assert (after.last_producer_epoch, after.next_producer_id, after.client_transaction_version) == (EPOCH, -1, 2)
    assert (after.partitions, after.start_timestamp_ms) == (frozenset({ORDERS}), STARTED_MS)
    complete = after.completed(NOW_MS)
    assert (complete.state, complete.producer) == (COMPLETE_COMMIT, (PRODUCER_ID, EPOCH + 1))
    assert complete.partitions == frozenset()


@pytest.mark.parametrize("state", IDLE)
def test_an_abort_of_nothing_begins_when_it_ends(state: State) -> None:
    after = ended(transaction(state), "abort", client_version=2)
    assert after is not None
    assert (after.start_timestamp_ms, after.partitions) == (NOW_MS, frozenset())


def test_an_exhausted_epoch_ends_with_the_next_producer_id_stored() -> None:
    producer = (PRODUCER_ID, EXHAUSTED)
    after = ended(transaction(ONGOING, EXHAUSTED), "commit", producer, client_version=2)
    assert after is not None
    assert (after.producer, after.next_producer_id) == ((PRODUCER_ID, MAX_EPOCH), NEW_ID)  # markers are the old one's
    complete = after.completed(NOW_MS)
    assert (complete.producer, complete.next_producer_id) == ((NEW_ID, 0), -1)
    assert (complete.previous_producer_id, complete.last_producer_epoch) == (PRODUCER_ID, EXHAUSTED)
    assert by_second_rules(complete, "commit", producer) == "again"
    assert by_second_rules(complete, "abort", producer) == WRONG
    assert by_second_rules(complete, "commit", (PRODUCER_ID, EXHAUSTED - 1)) == MAPPING
    assert by_second_rules(complete, "abort", (NEW_ID, 0)) == "PrepareAbort s+1"


@pytest.mark.parametrize("epoch", [EXHAUSTED, MAX_EPOCH])
def test_without_a_producer_id_at_hand_an_exhausted_epoch_does_not_end(epoch: int) -> None:
    before, producer = transaction(ONGOING, epoch), (PRODUCER_ID, epoch)
    refused = outcome(lambda: ended(before, "abort", producer, client_version=2, ids=no_id), before)
    assert refused == "COORDINATOR_LOAD_IN_PROGRESS"
    assert outcome(lambda: ended(before, "abort", producer, client_version=0, ids=no_id), before) == "PrepareAbort s"


def test_an_epoch_that_is_the_very_last_ends_without_another() -> None:
    after = ended(transaction(ONGOING, MAX_EPOCH), "abort", (PRODUCER_ID, MAX_EPOCH), client_version=2)
    assert after is not None
    assert (after.producer_epoch, after.completed(NOW_MS).producer) == (MAX_EPOCH, (NEW_ID, 0))
