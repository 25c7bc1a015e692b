"""What is committed and what is pending is the same in memory and in what a load makes of the log, compacted or not."""

from random import Random

import pytest

from barnabas.base.promise import resolved
from barnabas.broker.coordinator.decision import TransactionalProducer
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.storage.transactions.marker import TransactionMarker
from tests.broker.groups.test_real_log import Kit

GROUPS = ("a", "b", "c")
PRODUCERS = (1, 2, 3)
CLEANER_BACKOFF_MS = 15_000
State = dict[str, tuple[object, object]]


class Groups:
    """Groups that commit one partition, inside and outside of transactions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.kit = Kit(min_cleanable_dirty_ratio=0.0, index_interval_bytes=100, delete_retention_ms=0).load()
        self._epochs = dict.fromkeys(PRODUCERS, 0)
        self._offset = 0

    def step(self) -> str:
        action = self._random.choice(("commit", "offset", "offset", "offset", "marker", "marker", "delete"))
        producer_id, group_id = self._random.choice(PRODUCERS), self._random.choice(GROUPS)
        self._offset += 1
        match action:
            case "commit":
                self.kit.commit(self._offset, group_id)
            case "offset":
                self._commit_in_transaction(producer_id, group_id)
            case "marker":
                self._end(producer_id)
            case _:
                self._delete(group_id)
        return f"{action} {producer_id} {group_id} {self._offset}"

    def _commit_in_transaction(self, producer_id: int, group_id: str) -> None:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=str(producer_id),
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=self._epochs[producer_id],
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        by = TransactionalProducer(producer_id, self._epochs[producer_id], is_v2=True)
        answer = self.kit.runtime.run_in_transaction(
            by, lambda _: resolved(None), lambda shard: shard.offsets.commit_in_transaction(request, 5)
        )
        assert answer.value.topics[0].partitions[0].error_code == 0

    def _end(self, producer_id: int) -> None:
        """By the rules of version 2: the marker has the epoch of the next transaction."""
        self._epochs[producer_id] += 1
        is_committed = self._random.random() < 0.7
        marker = TransactionMarker(producer_id, self._epochs[producer_id], 0, is_committed, transaction_version=2)
        assert self.kit.runtime.end_transaction(marker).error is None

    def _delete(self, group_id: str) -> None:
        topics = [OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        self.kit.runtime.run(lambda shard: shard.offsets.delete(request))

    def compact(self) -> None:
        """Seals what there is, and lets the cleaner look at it twice: what only it kept may go the second time."""
        broker = self.kit.broker
        self.kit.partition.log.roll(broker.clock.now_ms())
        for _ in range(2):
            broker.settle()
            broker.clock.advance(CLEANER_BACKOFF_MS)
        broker.settle()

    def state(self) -> State:
        return {
            group_id: (self.kit.offset(group_id), self.kit.offset(group_id, require_stable=True)) for group_id in GROUPS
        }


@pytest.mark.parametrize("seed", range(25))
def test_memory_and_log_agree_compacted_or_not(seed: int) -> None:
    random = Random(seed)
    groups = Groups(random)
    history: list[str] = []
    for _ in range(80):
        history.append(groups.step())
        if random.random() < 0.15:
            history.append("compact")
            groups.compact()
        if random.random() < 0.15:
            history.append("restart")
            before = groups.state()
            groups.kit.restart()
            assert groups.state() == before, f"seed={seed} {history}"
    assert groups.kit.partition.log.compaction.first_dirty_offset > 0, "something was compacted"
