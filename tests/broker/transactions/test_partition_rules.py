"""What AddPartitionsToTxn makes of a transaction, and what it says of partitions that are only checked: every state and
epoch."""

from itertools import product

import pytest

from barnabas.broker.transactions import rules
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch, State, Transaction
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import TopicPartition
from tests.broker.transactions.rule_cases import (
    BUSY,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EPOCH,
    EPOCHS,
    FENCED,
    IDLE,
    MAPPING,
    NOW_MS,
    ONGOING,
    ORDERS,
    OTHER_ID,
    PAYMENTS,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PRODUCER_ID,
    UPDATED_MS,
    outcome,
    transaction,
)

PRODUCER = ProducerIdAndEpoch(PRODUCER_ID, EPOCH)
EVERY_CASE = pytest.mark.parametrize(("state", "epoch"), [*product(State, EPOCHS)])
VERIFIED = {
    EMPTY: "TRANSACTION_ABORTABLE",
    ONGOING: "NONE",
    PREPARE_COMMIT: BUSY,
    PREPARE_ABORT: BUSY,
    COMPLETE_COMMIT: "TRANSACTION_ABORTABLE",
    COMPLETE_ABORT: "TRANSACTION_ABORTABLE",
}


def added(
    before: Transaction | None,
    *partitions: TopicPartition,
    producer: ProducerIdAndEpoch = PRODUCER,
    now_ms: int = NOW_MS,
) -> Transaction | None:
    return rules.add_partitions(before, producer, partitions, client_version=2, now_ms=now_ms)


@EVERY_CASE
def test_adding(state: State, epoch: str) -> None:
    before, sent = transaction(state), EPOCH + EPOCHS[epoch]
    expected = BUSY if before.is_ending else "Ongoing s" if epoch == "s" else FENCED
    right, wrong = ProducerIdAndEpoch(PRODUCER_ID, sent), ProducerIdAndEpoch(OTHER_ID, sent)
    assert outcome(lambda: added(before, PAYMENTS, producer=right), before) == expected
    assert outcome(lambda: added(before, PAYMENTS, producer=wrong), before) == (BUSY if before.is_ending else MAPPING)


def test_partitions_that_are_there_are_not_added_again() -> None:
    before = transaction(ONGOING)
    assert added(before, ORDERS) is None
    assert outcome(lambda: added(before, ORDERS, PAYMENTS), before) == "Ongoing s"


def test_nothing_is_added_to_an_id_that_is_not_known() -> None:
    assert outcome(lambda: added(None, ORDERS), None) == MAPPING


@pytest.mark.parametrize("state", IDLE)
def test_the_first_partition_begins_a_transaction(state: State) -> None:
    begun = added(transaction(state), ORDERS)
    assert begun is not None
    assert (begun.start_timestamp_ms, begun.partitions) == (NOW_MS, frozenset({ORDERS}))
    more = added(begun, PAYMENTS, now_ms=NOW_MS + 50)
    assert more is not None
    assert (more.start_timestamp_ms, more.partitions) == (NOW_MS, frozenset({ORDERS, PAYMENTS}))
    assert (more.last_update_timestamp_ms, more.client_transaction_version) == (NOW_MS + 50, 2)


def test_a_transaction_begins_now_even_if_the_clock_was_ahead_when_its_id_was_used_last() -> None:
    begun = added(transaction(EMPTY), ORDERS, now_ms=UPDATED_MS - 100)
    assert begun is not None
    assert (begun.start_timestamp_ms, begun.last_update_timestamp_ms) == (UPDATED_MS - 100, UPDATED_MS)


def verified(before: Transaction | None, producer_id: int = PRODUCER_ID, epoch: int = EPOCH) -> str:
    try:
        answer = rules.verify_partitions(before, ProducerIdAndEpoch(producer_id, epoch), [ORDERS])
    except KafkaError as error:
        return error.code.name
    return answer[ORDERS].name


@EVERY_CASE
def test_checking(state: State, epoch: str) -> None:
    before, sent = transaction(state), EPOCH + EPOCHS[epoch]
    assert verified(before, epoch=sent) == (VERIFIED[state] if epoch == "s" else FENCED)
    assert verified(before, epoch=sent, producer_id=OTHER_ID) == MAPPING
    assert verified(None) == MAPPING


def test_each_partition_is_checked_for_itself() -> None:
    answer = rules.verify_partitions(transaction(ONGOING), PRODUCER, [ORDERS, PAYMENTS])
    assert answer == {ORDERS: ErrorCode.NONE, PAYMENTS: ErrorCode.TRANSACTION_ABORTABLE}
