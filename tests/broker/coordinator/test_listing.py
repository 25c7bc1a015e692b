"""ListTransactions where a partition of `__transaction_state` cannot answer: it is refused, and holds up nobody."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.handlers import list_transactions
from barnabas.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollower, UnknownTopicOrPartition
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.broker.transactions.harness import COMMIT_TIMEOUT_MS, TransactionHarness, code_of


@pytest.fixture
def kit() -> TransactionHarness:
    kit = TransactionHarness()
    kit.init("committed")
    kit.partition.commits_at_once = False
    return kit


def listed(kit: TransactionHarness) -> Promise[ListTransactionsResponse]:
    def shards() -> list[Promise[Any]]:
        return [kit.runtime.run(lambda shard: Decision((), shard.transactions()))]

    node: Any = SimpleNamespace(clock=kit.clock, transactions=SimpleNamespace(transactions=shards))
    request = ListTransactionsRequest(state_filters=(), producer_id_filters=())
    answer = list_transactions.handle(node, request, SimpleNamespace())  # type: ignore[arg-type]
    assert isinstance(answer, Promise)
    return answer


def test_what_is_not_committed_in_time_cannot_be_listed_and_holds_up_nobody(kit: TransactionHarness) -> None:
    kit.ask_init("tx")
    answer, later = listed(kit), kit.ask_init("another")
    assert not answer.done
    kit.clock.advance(COMMIT_TIMEOUT_MS)
    assert answer.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(later.error, KafkaError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotLeaderOrFollower("led elsewhere"), ErrorCode.NONE),  # another broker lists what was here
        (UnknownTopicOrPartition("deleted"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_partition_that_is_gone(kit: TransactionHarness, error: KafkaError, expected: ErrorCode) -> None:
    kit.ask_init("tx")
    answer, later = listed(kit), kit.add(kit.now("tx").producer)
    kit.partition.fail(error)
    assert answer.value.error_code == expected
    assert not answer.value.transaction_states
    assert code_of(later)
