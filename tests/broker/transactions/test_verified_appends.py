"""Transactional batches are appended when their coordinator agrees, in the order in which they were sent."""

import pytest

from barnabas.broker.transactions.verification import ClientVersion
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from tests.broker.transactions.stage import OLD, V1, V2, Stage, image_of

E = ErrorCode

LEADS_AWAY = [
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.NETWORK_EXCEPTION,
]


@pytest.mark.parametrize(
    ("answer", "old", "v1", "v2"),
    [  # Produce 10 and below, 11, 12 and above
        (E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (E.PRODUCER_FENCED, *[E.INVALID_PRODUCER_EPOCH] * 3),  # to clients it would mean another thing from here
        (E.INVALID_PRODUCER_EPOCH, *[E.INVALID_PRODUCER_EPOCH] * 3),
        (E.INVALID_PRODUCER_ID_MAPPING, *[E.INVALID_PRODUCER_ID_MAPPING] * 3),
        (E.CONCURRENT_TRANSACTIONS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS),
        *[(code, *[E.NOT_ENOUGH_REPLICAS] * 3) for code in LEADS_AWAY],  # sent again without asking for metadata
        (E.INVALID_TXN_STATE, *[E.INVALID_TXN_STATE] * 3),
    ],
)
def test_what_the_coordinator_answers_reaches_clients_of_each_version(
    answer: ErrorCode, old: ErrorCode, v1: ErrorCode, v2: ErrorCode
) -> None:
    for client_version, told in ((OLD, old), (V1, v1), (V2, v2)):
        stage = Stage()
        stage.coordinator.answers_at_once = answer
        batch = stage.send(client_version=client_version)
        stage.clock.advance(200)
        assert batch.outcome == told, client_version
        assert stage.sequences == [], "nothing was appended"


@pytest.mark.parametrize("client_version", [OLD, V1, V2])
def test_only_the_first_batch_of_a_transaction_is_asked_about(client_version: ClientVersion) -> None:
    stage = Stage()
    stage.coordinator.answers_at_once = E.NONE
    outcomes = [stage.send(sequence, client_version=client_version).outcome for sequence in range(3)]
    assert outcomes == [0, 1, 2]
    (question,) = stage.coordinator.questions
    assert question.is_added == (client_version == V2)


def test_what_is_pipelined_waits_for_the_first_and_keeps_its_order() -> None:
    stage = Stage()
    batches = [stage.send(sequence) for sequence in range(5)]
    assert all(batch.outcome is None and batch.is_kept for batch in batches)
    stage.coordinator.answer()
    assert [batch.outcome for batch in batches] == [0, 1, 2, 3, 4]
    assert stage.sequences == [0, 1, 2, 3, 4]
    assert len(stage.coordinator.questions) == 1


def test_what_waits_behind_a_batch_that_is_refused_is_refused_like_it() -> None:
    stage = Stage()
    batches = [stage.send(sequence) for sequence in range(3)]
    stage.coordinator.answer(E.NOT_COORDINATOR)
    assert [batch.outcome for batch in batches] == [E.NOT_ENOUGH_REPLICAS] * 3
    again = [stage.send(sequence) for sequence in range(3)]
    stage.coordinator.answer()
    assert [batch.outcome for batch in again] == [0, 1, 2]


def test_a_later_batch_is_not_the_first_while_the_lower_one_is_to_come_again() -> None:
    stage = Stage()
    first = stage.send(0)
    stage.coordinator.answer(E.NOT_COORDINATOR)
    stage.coordinator.answers_at_once = E.NONE
    assert (first.outcome, stage.send(1).outcome) == (E.NOT_ENOUGH_REPLICAS, E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [stage.send(0).outcome, stage.send(1).outcome] == [0, 1]


def test_a_newer_epoch_does_not_share_the_refusal_of_an_older_one() -> None:
    stage = Stage()
    old, new = stage.send(0, epoch=0), stage.send(0, epoch=1)
    stage.coordinator.answer(E.PRODUCER_FENCED)
    assert (old.outcome, new.outcome) == (E.INVALID_PRODUCER_EPOCH, None)
    assert stage.coordinator.questions[-1].producer_epoch == 1
    stage.coordinator.answer()
    assert new.outcome == 0


def test_partitions_do_not_wait_for_each_other() -> None:
    stage = Stage()
    bills = stage.lead(TopicPartition("bills", 0))
    first = stage.send(0)
    other = stage.send(0, partitions=[bills])
    stage.coordinator.answer()
    assert (first.outcome, other.outcome) == (None, 0)


def test_the_partitions_of_one_request_are_one_question() -> None:
    stage = Stage()
    bills = stage.lead(TopicPartition("bills", 0))
    stage.send(0, partitions=[stage.partition, bills])
    (question,) = stage.coordinator.questions
    assert [partition.topic for partition in question.partitions] == ["bills", "orders"]


def test_an_older_epoch_is_refused_without_a_question() -> None:
    stage = Stage()
    stage.coordinator.answers_at_once = E.NONE
    stage.send(0, epoch=3)
    assert stage.send(0, epoch=2).outcome == E.INVALID_PRODUCER_EPOCH
    assert len(stage.coordinator.questions) == 1


def test_a_marker_ends_the_guard_of_what_was_asked_before_it() -> None:
    """A batch is verified, and arrives when its transaction was aborted: the next one must not take it in."""
    stage = Stage()
    late = stage.send(0, epoch=0, client_version=V1)
    stage.end(1, transaction_version=1, is_committed=False)
    stage.coordinator.answer()
    assert late.outcome in (E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE)
    assert stage.partition.log.last_stable_offset == stage.partition.log.log_end_offset, "nothing hangs"


def test_old_clients_are_not_verified_where_that_is_switched_off() -> None:
    stage = Stage(transaction_partition_verification_enable="false")
    assert [stage.send(0, client_version=V1).outcome, stage.send(1, client_version=V1).outcome] == [0, 1]
    assert stage.coordinator.questions == []


def test_partitions_are_added_wherever_verification_is_switched_off() -> None:
    stage = Stage(transaction_partition_verification_enable="false")
    assert (stage.send(0).outcome, len(stage.coordinator.questions)) == (None, 1)


# ---- the end of the last transaction


def test_a_batch_waits_for_the_end_of_the_transaction_before_it() -> None:
    stage = Stage()
    batches = [stage.send(0), stage.send(1)]
    stage.coordinator.answer(E.CONCURRENT_TRANSACTIONS)
    assert [batch.outcome for batch in batches] == [None, None]
    stage.clock.advance(1)
    stage.coordinator.answer(E.CONCURRENT_TRANSACTIONS)
    stage.clock.advance(2)
    stage.coordinator.answer()
    assert [batch.outcome for batch in batches] == [0, 1]
    assert len(stage.coordinator.questions) == 3


def test_it_does_not_wait_for_ever() -> None:
    stage = Stage()
    stage.coordinator.answers_at_once = E.CONCURRENT_TRANSACTIONS
    batches = [stage.send(0), stage.send(1)]
    stage.clock.advance(99)
    assert [batch.outcome for batch in batches] == [None, None]
    stage.clock.advance(21)  # the pause that has begun before
    assert [batch.outcome for batch in batches] == [E.CONCURRENT_TRANSACTIONS] * 2


def test_the_marker_of_the_last_transaction_does_not_end_the_guard_of_the_next() -> None:
    """By the rules of version 2 a marker has the epoch of the transaction that follows (KAFKA-18575)."""
    stage = Stage()
    stage.coordinator.answers_at_once = E.NONE
    stage.send(0, epoch=0)
    stage.coordinator.answers_at_once = None
    following = stage.send(0, epoch=1)
    stage.end(1)
    stage.coordinator.answer()
    assert following.outcome == 2


@pytest.mark.parametrize("leader", [None, -1])
def test_without_a_coordinator_the_batch_is_to_come_again(leader: int | None) -> None:
    stage = Stage()
    stage.image = image_of() if leader is None else image_of((TRANSACTION_STATE_TOPIC, leader))
    assert stage.send(0).outcome == E.NOT_ENOUGH_REPLICAS
