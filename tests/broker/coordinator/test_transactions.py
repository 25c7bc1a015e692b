"""Records that belong to a transaction: who is asked before they are written, and what their marker does."""

from collections.abc import Callable

import pytest

from barnabas.base.promise import Promise, resolved
from barnabas.broker.coordinator.decision import Decision, TransactionalProducer
from barnabas.protocol.errors import ErrorCode, InvalidProducerEpoch, KafkaError, KafkaStorageError
from barnabas.protocol.types import TopicPartition
from barnabas.storage.transactions.marker import TransactionMarker
from tests.broker.coordinator.counters import COMMIT_TIMEOUT_MS, TOPIC, Counters, Kit, code_of

PRODUCER = TransactionalProducer(producer_id=7, producer_epoch=2, is_v2=False)


class TransactionKit(Kit):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[TopicPartition] = []
        self.verified: Promise[KafkaError | None] | None = None
        """What the transaction's coordinator answers; at once and in favour if None."""

    def set_in_transaction(self, name: str, value: int, producer: TransactionalProducer = PRODUCER) -> Promise[int]:
        return self.in_transaction(lambda counters: counters.set(name, value), producer)

    def in_transaction(
        self, decide: Callable[[Counters], Decision[int]], producer: TransactionalProducer = PRODUCER
    ) -> Promise[int]:
        return self.runtime.run_in_transaction(producer, self._verify, decide)

    def _verify(self, partition: TopicPartition) -> Promise[KafkaError | None]:
        self.asked.append(partition)
        return resolved(None) if self.verified is None else self.verified

    def end(self, *, is_committed: bool = True, epoch: int = 2, coordinator_epoch: int = 5) -> Promise[None]:
        marker = TransactionMarker(7, epoch, coordinator_epoch, is_committed, transaction_version=1)
        return self.runtime.end_transaction(marker)


@pytest.mark.parametrize("is_committed", [False, True])
def test_records_of_a_transaction_and_its_marker_reach_a_live_machine_as_they_reach_a_loading_one(
    is_committed: bool,
) -> None:
    kit = TransactionKit()
    kit.runtime.run(lambda counters: counters.set("a", 1))
    kit.set_in_transaction("a", 2)
    live = [(dict(kit.machine.values), dict(kit.machine.pending))]
    loads = [kit.loaded(kit.partition).machine]
    ended = kit.end(is_committed=is_committed)
    assert ended.done
    assert ended.error is None
    live.append((dict(kit.machine.values), dict(kit.machine.pending)))
    loads.append(kit.loaded(kit.partition).machine)
    assert live == [({"a": 1}, {7: {"a": 2}}), ({"a": 2 if is_committed else 1}, {})]
    assert [(machine.values, machine.pending) for machine in loads] == live
    assert [machine.offsets for machine in (*loads, kit.machine)] == [[0, 1]] * 3
    _, written, marker = kit.partition.batches()
    assert (written.producer_id, written.producer_epoch, written.base_sequence) == (7, 2, -1)
    assert written.is_transactional
    assert marker.is_control
    assert (marker.producer_id, marker.producer_epoch) == (7, 2)


# ---- verification


def test_the_transactions_coordinator_is_asked_once_in_each_transaction() -> None:
    kit = TransactionKit()
    for transaction in (1, 2):
        kit.set_in_transaction("a", 1)
        kit.set_in_transaction("b", 1)
        assert kit.asked == [TopicPartition(TOPIC, 3)] * transaction
        kit.end()


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),  # clients of old know that one
    ],
)
def test_nothing_is_decided_in_a_transaction_that_does_not_include_the_partition(
    refusal: ErrorCode, told: ErrorCode
) -> None:
    kit = TransactionKit()
    kit.verified = resolved(KafkaError("no", refusal))
    decided: list[Counters] = []
    answer = kit.in_transaction(lambda counters: decided.append(counters) or counters.set("a", 1))  # type: ignore[func-returns-value]
    assert code_of(answer) == told
    assert decided == []
    assert kit.partition.log_end_offset == 0


def test_what_waits_for_the_answer_decides_on_the_state_of_that_later_time() -> None:
    kit = TransactionKit()
    kit.verified = Promise()
    answer = kit.set_in_transaction("a", 2)
    kit.runtime.run(lambda counters: counters.set("a", 1))
    assert not answer.done
    kit.verified.resolve(None)
    assert answer.value == 1, "the value before"


def test_a_transaction_that_ends_while_the_question_is_under_way_gets_nothing_more() -> None:
    kit = TransactionKit()
    kit.verified = Promise()
    late = kit.set_in_transaction("a", 1)
    kit.end(is_committed=False)
    kit.verified.resolve(None)
    assert code_of(late) == ErrorCode.INVALID_TXN_STATE
    assert kit.machine.pending == {}


def test_who_waits_for_the_answer_when_the_partition_moves_away_is_sent_elsewhere() -> None:
    kit = TransactionKit()
    kit.verified = Promise()
    answer = kit.set_in_transaction("a", 1)
    kit.runtime.unload()
    kit.load()
    kit.verified.resolve(None)
    assert code_of(answer) == ErrorCode.NOT_COORDINATOR
    assert kit.partition.log_end_offset == 0
    kit.runtime.unload()
    kit.asked.clear()
    assert code_of(kit.set_in_transaction("a", 1)) == ErrorCode.NOT_COORDINATOR
    assert kit.asked == []


def test_a_producer_of_an_old_epoch_is_refused_without_a_question() -> None:
    kit = TransactionKit()
    kit.set_in_transaction("a", 1)
    kit.end(epoch=3)
    kit.asked.clear()
    assert code_of(kit.set_in_transaction("a", 2)) == InvalidProducerEpoch.code
    assert kit.asked == []


# ---- markers


def test_a_marker_is_answered_when_it_is_committed_and_not_at_all_if_it_cannot_be_written() -> None:
    kit = TransactionKit()
    kit.set_in_transaction("a", 2)
    kit.partition.append_error = KafkaStorageError("no space")
    assert code_of(kit.end()) == ErrorCode.NOT_COORDINATOR
    assert kit.machine.pending
    kit.partition.append_error, kit.partition.commits_at_once = None, False
    ended = kit.end()
    seen = kit.runtime.run(lambda counters: counters.get("a"))
    assert not ended.done
    assert not seen.done
    kit.partition.commit()
    assert ended.error is None
    assert seen.value == 2
    slow = kit.end()
    kit.clock.advance(COMMIT_TIMEOUT_MS)
    assert code_of(slow) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.runtime.unload()
    assert code_of(kit.end()) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "refusal"),
    [
        (1, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_a_marker_of_the_past_ends_nothing(epoch: int, coordinator_epoch: int, refusal: ErrorCode) -> None:
    kit = TransactionKit()
    kit.set_in_transaction("a", 1)
    kit.end()
    kit.set_in_transaction("a", 2)
    assert code_of(kit.end(epoch=epoch, coordinator_epoch=coordinator_epoch)) == refusal
    assert kit.machine.pending == {7: {"a": 2}}
