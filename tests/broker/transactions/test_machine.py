"""The order in which a decision, its markers and its end are written, and what becomes of it where something fails."""

import pytest

from barnabas.broker.transactions.transaction import ProducerIdAndEpoch
from barnabas.protocol.errors import (
    ConcurrentTransactions,
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    ProducerFenced,
    TransactionCoordinatorFenced,
)
from tests.broker.transactions.harness import (
    COMMIT_TIMEOUT_MS,
    ORDERS,
    PAYMENTS,
    TIMEOUT_MS,
    TransactionHarness,
    code_of,
)

LATER_MS = 500
DAY_MS = 86_400_000


@pytest.fixture
def kit() -> TransactionHarness:
    return TransactionHarness()


def open_transaction(kit: TransactionHarness) -> ProducerIdAndEpoch:
    producer = kit.init()
    assert kit.add(producer, ORDERS, PAYMENTS).done
    return producer


# ---- the order of things


def test_markers_leave_when_the_decision_is_committed_and_the_end_is_recorded_after_the_last(
    kit: TransactionHarness,
) -> None:
    producer = open_transaction(kit)
    kit.partition.commits_at_once = kit.markers.is_done_at_once = False
    answer = kit.end(producer)
    assert kit.stored()[-1] == "PrepareCommit"
    assert not answer.done
    assert not kit.markers.sent
    kit.partition.commit()
    assert answer.value == (producer.producer_id, 1)  # nobody waits for markers
    (markers,) = kit.markers.sent
    assert markers.partitions == {ORDERS, PAYMENTS}
    assert (markers.producer_id, markers.producer_epoch, markers.coordinator_epoch) == (producer.producer_id, 1, 0)
    assert (markers.is_committed, markers.transaction_version) == (True, 2)
    assert kit.stored() == ["Empty", "Ongoing", "PrepareCommit"]
    kit.markers.finish()
    assert kit.stored() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


def test_markers_that_are_written_at_once_end_the_transaction_in_the_same_turn(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    assert kit.end(producer, is_commit=False).value == (producer.producer_id, 1)
    assert kit.state == "CompleteAbort"
    assert [one.is_committed for one in kit.markers.sent] == [False]


def test_a_transaction_of_the_first_rules_keeps_its_epoch_and_its_markers_say_so(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.end(producer, client_version=0)
    assert (kit.markers.sent[0].producer_epoch, kit.markers.sent[0].transaction_version) == (0, 0)
    assert kit.now().producer == producer


def test_while_markers_travel_the_id_takes_nothing(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    following = kit.end(producer).value
    assert code_of(kit.add(following, ORDERS)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert code_of(kit.end(producer)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert isinstance(kit.ask_init().error, ConcurrentTransactions)
    kit.markers.finish()
    assert kit.end(producer).value == following  # it is repeated, and answered again
    assert kit.add(following, ORDERS).done


def test_a_decided_transaction_is_described_with_the_partitions_that_wait_for_their_marker(
    kit: TransactionHarness,
) -> None:
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    kit.end(producer)
    assert kit.now().partitions == {ORDERS, PAYMENTS}
    kit.markers.unmarked["tx"] = frozenset({PAYMENTS})
    assert kit.now().partitions == {PAYMENTS}
    kit.markers.finish()
    assert kit.now().partitions == frozenset()


def test_an_abort_of_nothing_sends_no_markers(kit: TransactionHarness) -> None:
    producer = kit.init()
    assert kit.end(producer, is_commit=False).value == (producer.producer_id, 1)
    assert not kit.markers.sent
    assert kit.stored() == ["Empty", "PrepareAbort", "CompleteAbort"]


def test_a_producer_that_begins_anew_has_to_ask_again_until_the_open_transaction_is_aborted(
    kit: TransactionHarness,
) -> None:
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    assert isinstance(kit.ask_init().value, ConcurrentTransactions)
    assert [(one.producer_epoch, one.is_committed) for one in kit.markers.sent] == [(1, False)]
    assert isinstance(kit.ask_init().error, ConcurrentTransactions)
    assert code_of(kit.end(producer)) == ErrorCode.CONCURRENT_TRANSACTIONS
    kit.markers.finish()
    assert kit.init() == (producer.producer_id, 2)  # raised by the abort, and by the beginning
    assert isinstance(kit.end(producer).error, ProducerFenced)


def test_exhausted_epochs_go_over_into_another_producer_id() -> None:
    kit = TransactionHarness(first_epoch=32_765)
    seen = [kit.init()]
    for _ in range(3):
        kit.add(seen[-1], ORDERS)
        seen.append(kit.end(seen[-1]).value)
    assert seen == [(1000, 32_765), (1000, 32_766), (1001, 0), (1001, 1)]
    assert [(one.producer_id, one.producer_epoch) for one in kit.markers.sent] == [
        (1000, 32_766), (1000, 32_767), (1001, 1),
    ]  # fmt: skip


# ---- what fails


def test_a_decision_that_cannot_be_written_has_not_been_made(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    assert code_of(kit.end(producer)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not kit.markers.sent
    kit.partition.append_error = None
    assert kit.end(producer, is_commit=False).done  # it may still be decided in the other way
    assert kit.state == "CompleteAbort"


@pytest.mark.parametrize("version", [1, 2])
def test_a_fence_that_cannot_be_written_raises_the_epoch_once_when_it_can(version: int) -> None:
    kit = TransactionHarness(version=version)
    producer = open_transaction(kit)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    for _ in range(3):
        assert code_of(kit.ask_init()) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[arg-type]
    kit.partition.append_error = None
    assert isinstance(kit.ask_init().value, ConcurrentTransactions)
    assert kit.now().producer == (producer.producer_id, 1)


def test_a_decision_that_is_committed_late_is_carried_out_then(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.partition.commits_at_once = False
    answer = kit.end(producer)
    kit.clock.advance(COMMIT_TIMEOUT_MS)
    assert code_of(answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.clock.advance(3 * COMMIT_TIMEOUT_MS)
    assert not kit.markers.sent
    kit.partition.commits_at_once = True
    kit.clock.advance(LATER_MS)
    assert kit.state == "CompleteCommit"
    assert len(kit.markers.sent) == 1
    assert kit.end(producer).value == (producer.producer_id, 1)


def test_an_end_that_cannot_be_recorded_is_recorded_later(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    kit.end(producer)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    kit.markers.finish()
    kit.clock.advance(3 * LATER_MS)
    assert kit.state == "PrepareCommit"
    kit.partition.append_error = None
    kit.clock.advance(LATER_MS)
    assert kit.stored()[-1] == "CompleteCommit"
    assert len(kit.markers.sent) == 1


def test_markers_that_a_newer_coordinator_has_overtaken_are_left_to_it(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    kit.end(producer)
    kit.markers.finish(TransactionCoordinatorFenced("epoch 0 is of the past"))
    assert kit.state == "PrepareCommit"
    assert kit.report.having("are left to another coordinator")


# ---- who loads it


@pytest.mark.parametrize(("is_commit", "end"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
def test_who_loads_a_decision_sends_all_its_markers_and_records_the_end(
    kit: TransactionHarness, is_commit: bool, end: str
) -> None:
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    kit.end(producer, is_commit=is_commit)
    kit.fail_over()
    assert kit.markers.forgotten == {"tx"}
    first, second = kit.markers.sent
    assert second == first._replace(coordinator_epoch=1)
    kit.markers.finish()
    assert kit.state == end
    assert kit.stored().count(end) == 1, "the coordinator before records nothing any more"


def test_who_loads_acts_when_what_it_has_loaded_is_committed(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.partition.commits_at_once = False
    kit.end(producer)
    kit.partition.forget_waiters()
    kit.fail_over()
    assert kit.state == "PrepareCommit"
    assert not kit.markers.sent
    kit.partition.commit()
    assert len(kit.markers.sent) == 1


def test_an_exhausted_epoch_is_replaced_by_who_loads_the_decision() -> None:
    kit = TransactionHarness(first_epoch=32_766)
    producer = open_transaction(kit)
    kit.markers.is_done_at_once = False
    following = kit.end(producer).value
    kit.fail_over()
    kit.markers.finish()
    assert kit.now().producer == following == (1001, 0)
    assert kit.end(producer).value == following


def test_when_the_partition_moves_away_those_who_wait_look_for_it(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.partition.commits_at_once = False
    answer = kit.end(producer)
    kit.partition.fail(NotLeaderOrFollower("led elsewhere"))
    assert code_of(answer) == ErrorCode.NOT_COORDINATOR
    kit.clock.advance(10 * LATER_MS)
    assert not kit.markers.sent


# ---- time


def test_a_transaction_that_takes_too_long_is_aborted_in_the_next_epoch(kit: TransactionHarness) -> None:
    producer = open_transaction(kit)
    kit.clock.advance(TIMEOUT_MS - 1)
    assert kit.state == "Ongoing"
    kit.clock.advance(1)
    assert kit.now().producer == (producer.producer_id, 1)
    assert kit.state == "CompleteAbort"
    assert isinstance(kit.add(producer, ORDERS).error, ProducerFenced)
    assert kit.end(producer, is_commit=False).value == (producer.producer_id, 1)  # as if it had asked for it


def test_the_time_of_a_transaction_runs_from_its_first_partition(kit: TransactionHarness) -> None:
    producer = kit.init()
    kit.clock.advance(TIMEOUT_MS)
    kit.add(producer, ORDERS)
    kit.clock.advance(TIMEOUT_MS - 1)
    kit.add(producer, PAYMENTS)
    assert kit.state == "Ongoing"
    kit.clock.advance(1)
    assert kit.state == "CompleteAbort"


def test_a_transaction_that_has_ended_does_not_time_out(kit: TransactionHarness) -> None:
    following = kit.end(open_transaction(kit)).value
    kit.clock.advance(TIMEOUT_MS - 1)
    kit.add(following, ORDERS)
    kit.clock.advance(TIMEOUT_MS - 1)
    assert kit.state == "Ongoing"


def test_the_time_of_a_transaction_goes_on_where_it_is_loaded(kit: TransactionHarness) -> None:
    open_transaction(kit)
    kit.clock.advance(TIMEOUT_MS - 1_000)
    kit.fail_over()
    kit.clock.advance(999)
    assert kit.state == "Ongoing"
    kit.clock.advance(1)
    assert kit.state == "CompleteAbort"


def test_a_wall_clock_that_was_ahead_for_a_while_makes_no_later_transaction_longer(kit: TransactionHarness) -> None:
    kit.wall_clock_ahead_ms = DAY_MS
    producer = kit.init()
    kit.wall_clock_ahead_ms = 0
    kit.add(producer, ORDERS)
    assert kit.now().start_timestamp_ms == kit.clock.now_ms()
    kit.clock.advance(TIMEOUT_MS)
    assert kit.state == "CompleteAbort"


def test_a_wall_clock_that_is_set_back_makes_no_transaction_longer_than_its_timeout(kit: TransactionHarness) -> None:
    kit.wall_clock_ahead_ms = DAY_MS
    producer = open_transaction(kit)
    kit.wall_clock_ahead_ms = 0
    kit.fail_over()
    kit.clock.advance(TIMEOUT_MS - 1)
    assert kit.now().producer == producer
    kit.clock.advance(1)
    assert kit.state == "CompleteAbort"


def test_a_timeout_that_cannot_be_written_is_tried_again(kit: TransactionHarness) -> None:
    open_transaction(kit)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    kit.clock.advance(TIMEOUT_MS + LATER_MS)
    assert kit.state == "Ongoing"
    kit.partition.append_error = None
    kit.clock.advance(LATER_MS)
    assert kit.state == "CompleteAbort"


def test_a_timeout_waits_for_the_producer_id_that_it_needs() -> None:
    kit = TransactionHarness(first_epoch=32_766)
    open_transaction(kit)
    kit.producer_ids, ids = [], kit.producer_ids
    kit.clock.advance(TIMEOUT_MS + LATER_MS)
    assert kit.state == "Ongoing"
    kit.producer_ids = ids
    kit.clock.advance(LATER_MS)
    assert kit.now().producer == (1001, 0)


def test_ids_that_nobody_uses_expire_unless_a_transaction_is_open(kit: TransactionHarness) -> None:
    kit.init("idle")
    producer = kit.init("busy")
    kit.add(producer, ORDERS, name="busy")
    kit.clock.advance(TIMEOUT_MS - 1)
    kit.expire(TIMEOUT_MS)
    assert kit.now("idle")
    kit.expire(TIMEOUT_MS - 1)
    assert [one.transactional_id for one in kit.runtime.machine.transactions()] == ["busy"]
    assert kit.report.having("1 transactional ids have expired")
    kit.load()
    assert [one.transactional_id for one in kit.runtime.machine.transactions()] == ["busy"]


def test_however_many_ids_expire_the_loop_is_held_up_by_few_at_a_time(kit: TransactionHarness) -> None:
    kit.producer_ids = list(range(1_001))
    for number in range(1_000):
        kit.init(f"idle-{number}")
    kit.clock.advance(DAY_MS)
    producer = kit.init("used")
    kit.expire(DAY_MS)
    assert len(kit.runtime.machine.transactions()) > 700
    kit.init("idle-999")  # just in time
    kit.clock.advance(100)
    assert [one.transactional_id for one in kit.runtime.machine.transactions()] == ["idle-999", "used"]
    assert kit.now("used").producer == producer
    assert kit.report.having("999 transactional ids have expired")


def test_ids_that_could_not_be_forgotten_expire_another_time(kit: TransactionHarness) -> None:
    kit.producer_ids = list(range(1_001))
    for number in range(1_000):
        kit.init(f"idle-{number}")
    kit.clock.advance(DAY_MS)
    kit.expire(DAY_MS)
    kit.partition.append_error = NotEnoughReplicas("one of two")
    kit.clock.advance(100)
    kit.partition.append_error = None
    kit.clock.advance(LATER_MS + 100)
    assert len(kit.runtime.machine.transactions()) == 200
    kit.expire(DAY_MS)
    assert not kit.runtime.machine.transactions()


def test_who_comes_back_after_its_id_has_expired_gets_another_producer_id(kit: TransactionHarness) -> None:
    producer = kit.init()
    kit.clock.advance(10)
    kit.expire(10)
    assert kit.init(expected=producer) == (producer.producer_id + 1, 0)


# ---- what is stored


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_is_stored_is_loaded_but_for_the_epoch_before(version: int) -> None:
    kit = TransactionHarness(version=version)
    open_transaction(kit)
    before = kit.now()
    kit.fail_over()
    expected = before._replace(last_producer_epoch=-1)
    if version == 0:  # the first version of values
        expected = expected._replace(previous_producer_id=-1, client_transaction_version=0)
    assert kit.now() == expected
