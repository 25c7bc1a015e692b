"""A decision is on the disk before its markers, if one of them will be there at once."""

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.transactions.flushed_first import FlushedFirst
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.protocol.errors import KafkaStorageError, TransactionCoordinatorFenced
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log_config import LogConfig
from tests.broker.coordinator.memory_partition import MemoryPartition
from tests.broker.transactions.harness import ORDERS, PAYMENTS, Markers

CONFIGS = {"orders": LogConfig(), "payments": LogConfig().with_overrides({"flush.messages": "1"})}


class SlowDisk(MemoryPartition):
    def __init__(self) -> None:
        super().__init__(TopicPartition("__transaction_state", 0))
        self.flushed: Promise[None] = Promise()

    def when_flushed(self) -> Promise[None]:
        return self.flushed


def markers(*partitions: TopicPartition) -> TransactionMarkers:
    return TransactionMarkers("tx", 1000, 1, 0, True, 2, frozenset(partitions))


@pytest.fixture
def sender() -> Markers:
    return Markers()


def test_markers_that_are_flushed_wait_for_the_decision_to_be_flushed(sender: Markers) -> None:
    partition = SlowDisk()
    sent = FlushedFirst(sender, CONFIGS.__getitem__).send(markers(ORDERS, PAYMENTS), partition)
    assert not sender.sent
    partition.flushed.resolve(None)
    assert sent.done
    assert sent.error is None
    assert len(sender.sent) == 1


def test_others_do_not_wait(sender: Markers) -> None:
    assert FlushedFirst(sender, CONFIGS.__getitem__).send(markers(ORDERS), SlowDisk()).done


def test_a_decision_that_cannot_be_flushed_sends_no_markers(sender: Markers) -> None:
    partition = SlowDisk()
    sent = FlushedFirst(sender, CONFIGS.__getitem__).send(markers(PAYMENTS), partition)
    partition.flushed.fail(KafkaStorageError("the disk is gone"))
    assert isinstance(sent.error, KafkaStorageError)
    assert not sender.sent


def test_the_refusal_of_a_marker_is_handed_on(sender: Markers) -> None:
    partition, sender.is_done_at_once = SlowDisk(), False
    sent = FlushedFirst(sender, CONFIGS.__getitem__).send(markers(PAYMENTS), partition)
    partition.flushed.resolve(None)
    sender.finish(TransactionCoordinatorFenced("of the past"))
    assert isinstance(sent.error, TransactionCoordinatorFenced)
