"""Transactions in every state to apply rules to, and what became of them in a word.

Epochs are told by what they are to the stored one: `s` is the same, `s-1` the one before, `s+1` one that nobody has. A
name in capitals is an error.
"""

from collections.abc import Callable

from barnabas.broker.transactions.rules import Coordination
from barnabas.broker.transactions.transaction import State, Transaction
from barnabas.protocol.errors import CoordinatorLoadInProgress, KafkaError
from barnabas.protocol.types import TopicPartition

PRODUCER_ID, PREVIOUS_ID, OTHER_ID, NEW_ID = 1000, 900, 7, 2000
EPOCH, EXHAUSTED = 5, 32_766
STARTED_MS, UPDATED_MS, NOW_MS = 100, 200, 300
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 1)
EPOCHS = {"s-1": -1, "s": 0, "s+1": 1}

EMPTY, ONGOING = State.EMPTY, State.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = State.PREPARE_COMMIT, State.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)

FENCED, MAPPING = "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"
BUSY, WRONG = "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"


def transaction(state: State, epoch: int = EPOCH, **changes: object) -> Transaction:
    has_partitions = state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    known = Transaction(
        transactional_id="tx",
        producer_id=PRODUCER_ID,
        timeout_ms=60_000,
        previous_producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        last_producer_epoch=epoch - 1,
        state=state,
        partitions=frozenset({ORDERS} if has_partitions else ()),
        start_timestamp_ms=-1 if state is EMPTY else STARTED_MS,
        last_update_timestamp_ms=UPDATED_MS,
    )
    return known._replace(**changes)  # type: ignore[arg-type]


def one_id() -> int:
    return NEW_ID


def no_id() -> int:
    raise CoordinatorLoadInProgress


def coordination(version: int = 2, ids: Callable[[], int] = one_id) -> Coordination:
    return Coordination(NOW_MS, version, ids)


def outcome(decide: Callable[[], Transaction | None], before: Transaction | None) -> str:
    """The error, or `again` for what was done before, or the state and what became of the epoch: `PrepareAbort s+1`."""
    try:
        after = decide()
    except KafkaError as error:
        return error.code.name
    if after is None:
        return "again"
    assert before is not None
    if after.producer_id != before.producer_id:
        return f"{after.state.label} of a new id in {after.producer_epoch}"
    moved = after.producer_epoch - before.producer_epoch
    return f"{after.state.label} s{moved:+}" if moved else f"{after.state.label} s"
