"""Transactions that begin while the markers of the one before are on their way."""

import pytest

from barnabas.base.promise import Promise, failed
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch
from barnabas.protocol.errors import ErrorCode, KafkaError, NotEnoughReplicas, TransactionCoordinatorFenced
from tests.broker.transactions.harness import ORDERS, PAYMENTS, WAIT_MAX_MS, TransactionHarness, code_of


@pytest.fixture
def kit() -> TransactionHarness:
    return TransactionHarness()


def ending_transaction(kit: TransactionHarness, name: str = "tx") -> ProducerIdAndEpoch:
    """Returns the producer that goes on when the markers of its transaction, which are sent, are written."""
    producer = kit.init(name)
    kit.add(producer, ORDERS, name=name)
    kit.markers.is_done_at_once = False
    return kit.end(producer, name=name).value


def codes_of(*answers: Promise[None]) -> list[ErrorCode | None]:
    """What has been answered so far; None where an answer waits."""
    return [(code_of(answer) if answer.error else ErrorCode.NONE) if answer.done else None for answer in answers]


def let_timers_fire(kit: TransactionHarness) -> None:
    """An answer that was given already would be given again by a timer that was left, and fail the test."""
    kit.clock.advance(10 * WAIT_MAX_MS)


def test_what_meets_no_transaction_is_answered_at_once(kit: TransactionHarness) -> None:
    producer = kit.init()
    stranger = producer._replace(producer_id=1)
    answers = kit.add_in_time(producer, ORDERS), kit.add_in_time(stranger, ORDERS)
    assert codes_of(*answers) == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_a_transaction_begins_in_the_moment_in_which_the_last_has_ended(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    first, second = kit.add_in_time(producer, PAYMENTS), kit.add_in_time(producer, ORDERS)
    assert codes_of(first, second) == [None, None]
    kit.markers.finish()
    assert codes_of(first, second) == [ErrorCode.NONE, ErrorCode.NONE]
    assert kit.stored()[-4:] == ["PrepareCommit", "CompleteCommit", "Ongoing", "Ongoing"]
    assert kit.now().partitions == {ORDERS, PAYMENTS}
    let_timers_fire(kit)
    assert kit.state == "Ongoing"


def test_it_begins_before_the_end_of_the_last_is_committed_and_is_answered_after_it(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    answer = kit.add_in_time(producer, ORDERS)
    kit.partition.commits_at_once = False
    kit.markers.finish()
    assert (kit.state, codes_of(answer)) == ("Ongoing", [None])
    kit.partition.commit()
    assert codes_of(answer) == [ErrorCode.NONE]


def test_each_id_waits_for_its_own_transaction(kit: TransactionHarness) -> None:
    producers = {name: ending_transaction(kit, name) for name in ("one", "two")}
    answers = [kit.add_in_time(producer, ORDERS, name=name) for name, producer in producers.items()]
    kit.markers.under_way.pop().resolve(None)
    assert codes_of(*answers) == [None, ErrorCode.NONE]


def test_who_has_waited_long_enough_is_told_that_the_last_transaction_is_still_ending(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    early = kit.add_in_time(producer, ORDERS)
    kit.clock.advance(WAIT_MAX_MS - 1)
    late = kit.add_in_time(producer, ORDERS)
    assert codes_of(early, late) == [None, None]
    kit.clock.advance(1)
    assert codes_of(early, late) == [ErrorCode.CONCURRENT_TRANSACTIONS, None]
    kit.markers.finish()
    assert codes_of(late) == [ErrorCode.NONE]
    let_timers_fire(kit)


def test_the_end_that_cannot_be_written_lets_nothing_begin(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    answer = kit.add_in_time(producer, ORDERS)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    kit.markers.finish()
    assert codes_of(answer) == [None]
    let_timers_fire(kit)
    assert codes_of(answer) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_a_transaction_that_another_coordinator_ends_lets_nothing_begin_here(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    answer = kit.add_in_time(producer, ORDERS)
    kit.markers.finish(TransactionCoordinatorFenced("a later epoch"))
    assert codes_of(answer) == [None]
    kit.runtime.unload()
    assert codes_of(answer) == [ErrorCode.NOT_COORDINATOR]
    let_timers_fire(kit)


def test_a_transaction_begins_also_when_the_end_of_the_last_is_written_at_the_second_try(
    kit: TransactionHarness,
) -> None:
    producer = ending_transaction(kit)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    kit.markers.finish()
    kit.clock.advance(450)  # it is tried again after half a second
    answer = kit.add_in_time(producer, ORDERS)
    kit.partition.append_error = None
    kit.clock.advance(50)
    assert codes_of(answer) == [ErrorCode.NONE]
    let_timers_fire(kit)


def test_a_client_that_has_gone_away_begins_nothing(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    gone, there = kit.add_in_time(producer, ORDERS), kit.add_in_time(producer, PAYMENTS)
    gone.abandon()
    kit.markers.finish()
    assert codes_of(gone, there) == [None, ErrorCode.NONE]
    assert kit.now().partitions == {PAYMENTS}
    let_timers_fire(kit)


def test_an_attempt_that_fails_with_a_bug_leaves_the_others_to_their_timers() -> None:
    kit = TransactionHarness()
    tries: list[str] = []

    def attempt(name: str, outcome: Exception | None) -> Promise[None]:
        tries.append(name)
        if tries.count(name) > 1 and isinstance(outcome, ZeroDivisionError):
            raise outcome
        return failed(KafkaError("still ending", ErrorCode.CONCURRENT_TRANSACTIONS))

    kit.held_back.run("tx", lambda: attempt("first", ZeroDivisionError()))
    second = kit.held_back.run("tx", lambda: attempt("second", None))
    with pytest.raises(ZeroDivisionError):
        kit.held_back.go_on("tx")
    let_timers_fire(kit)
    assert tries == ["first", "second", "first", "second"]
    assert codes_of(second) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_a_broker_that_stops_answers_what_waits(kit: TransactionHarness) -> None:
    producer = ending_transaction(kit)
    answers = kit.add_in_time(producer, ORDERS), kit.add_in_time(producer, PAYMENTS)
    kit.held_back.close()
    assert codes_of(*answers) == [ErrorCode.NOT_COORDINATOR] * 2
    let_timers_fire(kit)
    assert codes_of(kit.add_in_time(producer, ORDERS)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
