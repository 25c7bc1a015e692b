"""A client that copies one partition into another, exactly once: what it has read is committed with what it has written
(consume, transform, produce)."""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import Failed, Place
from tests.simulation.clients.fetching import fetch
from tests.simulation.clients.script import Script
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.routing import LeaderLink
from tests.simulation.cluster.transactions.model import Placed
from tests.simulation.cluster.transactions.oracle import Transaction
from tests.simulation.cluster.transactions.producer import TransactionalProducer
from tests.simulation.cluster.transactions.rules import GROUP, Coordinator, Rules

COPIED_MAX = 20
OVERTAKES = 0.3
"""How often the group commits something without a transaction, after what the open one has stored: that is later, and
so it stays."""


class Copier(TransactionalProducer):
    def __init__(self, place: Place, name: str, *, rules: Rules, timeout_ms: int) -> None:
        super().__init__(place, name, rules=rules, timeout_ms=timeout_ms)
        self.group = f"group-of-{name}"
        self.previous: Transaction | None = None

    def copies(self, source: TopicPartition, target: TopicPartition, of_source: DataOracle) -> None:
        self.source = source
        self.targets = [target]
        self.note = target
        """Not read; there are offsets of it to be committed in both ways."""
        self._of_source = of_source
        self.oracle.copiers[self.name] = 0

    def _begin_life(self) -> None:
        super()._begin_life()
        self.offsets = Coordinator(self, self.group, GROUP)
        self.reading = LeaderLink(self, self.source)
        self.position = 0
        self.noted = 0

    def _end_life(self) -> None:
        super()._end_life()
        self.offsets.close()
        self.reading.close()

    def recover(self) -> Script[None]:
        """Asks where to go on. Everything that its predecessors have begun is decided."""
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=[index]) for name, index in (self.source, self.note)
        ]
        group = OffsetFetchRequestGroup(group_id=self.group, member_id=None, member_epoch=-1, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        while True:
            response = yield from self.offsets.ask(
                request, OffsetFetchResponse, 8, lambda answer: answer.groups[0].error_code
            )
            found = {
                TopicPartition(topic.name, data.partition_index): data
                for topic in response.groups[0].topics
                for data in topic.partitions
            }
            codes = {ErrorCode(data.error_code) for data in found.values()}
            if codes == {ErrorCode.NONE}:
                break
            assert codes <= {ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT}, f"{self.name} was told {codes}"
            yield self.back_off()
        offsets = {name: data.committed_offset for name, data in found.items()}
        self.oracle.offsets_told(self.group, offsets, self.previous)
        self.position, self.noted = max(offsets[self.source], 0), max(offsets[self.note], 0)

    def _transaction(self) -> Script[None]:
        """Copies what is there; without anything there is no transaction."""
        try:
            (answer,) = (yield from fetch(self.reading, {self.source: self.position})) or (None,)  # type: ignore[arg-type]
        except KafkaError:
            yield self.back_off()
            return
        if self._of_source.losses:
            self.oracle.copiers.pop(self.name, None)
            self.position = 0 if answer is not None and answer.code is ErrorCode.OFFSET_OUT_OF_RANGE else self.position
        if answer is None or answer.code or not answer.records:
            return
        self._read = [offset for offset, _ in answer.records[:COPIED_MAX]]
        yield from super()._transaction()
        if self.has_committed:
            self.position = self._read[-1] + 1

    def fill(self, dies: bool) -> Script[None]:
        self.previous = transaction = self.transaction
        (target,) = self.targets
        if self.rules.adds_partitions:
            yield from self.add_partitions([target])
        records = [Placed(transaction.label, offset) for offset in self._read]
        yield from self.produce(target, [self.batch_of(target, records)], dies=dies)
        if self.rules.adds_partitions:
            yield from self._add_offsets()
        yield from self._commit_offsets()

    def _add_offsets(self) -> Script[None]:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=self.group,
        )
        try:
            yield from self.coordinator.ask(request, AddOffsetsToTxnResponse, 4, lambda answer: answer.error_code)
        except Failed as error:
            raise self._after(error.code) from None
        finally:
            self._judge()

    def _commit_offsets(self) -> Script[None]:
        before = self.offsets.unanswered
        stored = {self.source: self._read[-1] + 1, self.note: self.noted + 1}
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=None
                        )
                    ],
                )
                for (name, index), offset in stored.items()
            ],
        )
        try:
            yield from self.offsets.ask(request, TxnOffsetCommitResponse, self.rules.offsets_version, _first_error)
            self.transaction.offsets = {(self.group, name): offset for name, offset in stored.items()}
        except Failed as error:
            raise self._after(error.code) from None
        finally:
            self.coordinator.unanswered += self.offsets.unanswered - before
            self._judge()
        if self.random.random() < OVERTAKES:
            yield from self._overtake()

    def _overtake(self) -> Script[None]:
        """Commits a later offset without a transaction. It is known to be there before the end is asked for."""
        offset = self.noted + 2
        partition = OffsetCommitRequestPartition(
            partition_index=self.note.partition, committed_offset=offset, committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=self.note.topic, partitions=[partition])],
        )
        before = self.offsets.unanswered
        yield from self.offsets.ask(request, OffsetCommitResponse, 8, _first_error)
        self.noted = offset
        self.transaction.offsets.pop((self.group, self.note))
        is_known = self.offsets.unanswered == before  # one that was not answered may overtake a later one, too
        self.oracle.plainly_committed(self.group, self.note, offset if is_known else None)


def _first_error(answer: TxnOffsetCommitResponse | OffsetCommitResponse) -> int:
    codes = [data.error_code for topic in answer.topics for data in topic.partitions if data.error_code]
    return codes[0] if codes else 0
