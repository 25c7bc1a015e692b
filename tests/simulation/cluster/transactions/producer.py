"""A transactional producer with the rules of Java's.

- It sends to some partitions, several batches of each at once, and then asks for the end of its transaction.
- A batch whose fate is unknown is sent again under the same sequence number.
- What cannot be mended ends in an abort. If a batch may still arrive, a client of version 1 asks for a new epoch after
  that (KIP-360); with version 2 every end brings one.
- A client of version 1 whose transactional id has expired asks for a new epoch, too.
- Who is fenced begins anew, as a process does that was started again. Now and then one dies in the middle, with
  requests under way that may arrive long after its successor has begun.
"""

from collections.abc import Sequence

from barnabas.broker.transactions.transaction import ProducerIdAndEpoch
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.protocol.records import NewRecord
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import Failed, Place
from tests.simulation.clients.producer import RETRIABLE
from tests.simulation.clients.script import Script
from tests.simulation.cluster.routing import ClusterClient, LeaderLink
from tests.simulation.cluster.transactions.model import Label, Placed, value_of
from tests.simulation.cluster.transactions.oracle import Transaction, TransactionOracle
from tests.simulation.cluster.transactions.rules import (
    FENCED,
    TIMEOUT_MS,
    TRANSACTION,
    Coordinator,
    Died,
    Expired,
    Fenced,
    MustAbort,
    Rules,
    all_done,
)

AGAIN = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS}
BATCHES_MAX = 3
RECORDS_MAX = 3
THINKS, THINKS_MS = 0.15, 600
"""How often a client waits before it goes on with an open transaction, and how long at most."""
PATIENCE = 1_000
"""How often a batch is sent again by a client that does not give up."""
ABORTS, DIES = 0.25, 0.06
"""How often a transaction is aborted without need, and how often a client dies in the middle of one."""


class Batch:
    def __init__(self, records: list[Placed], base_sequence: int) -> None:
        self.records = records
        self.base_sequence = base_sequence


class TransactionalProducer(ClusterClient):
    oracle: TransactionOracle

    def __init__(self, place: Place, name: str, *, rules: Rules, timeout_ms: int) -> None:
        super().__init__(place, name)
        self.transactional_id = name
        self.transactions_of_an_id = 1 << 30
        self.rules = rules
        self.timeout_ms = timeout_ms
        self.interval_ms = 300.0
        self.targets: Sequence[TopicPartition] = list(place.oracle.partitions)
        self.transactions_max = 1 << 30
        """After how many it ends by itself."""
        self.numbers = 0
        self.begun = 0
        self.has_committed = False
        """Whether the last transaction was."""

    def script(self) -> Script[None]:
        while not self._is_done():
            self._begin_life()
            try:
                yield from self._init_producer_id(-1, -1)
                yield from self.recover()
                retires_after = self.begun + self.transactions_of_an_id
                while not self._is_done() and self.begun < retires_after:
                    yield from self._transaction()
                    yield self.sleep(self.random.expovariate(1) * self.interval_ms)
                if not self._is_done():
                    self._take_another_id()
            except Died:
                self.tell("dies in transaction {}", self.begun)
            except Fenced:
                self.tell("is fenced")
                self.oracle.fenced(self.name, self.begun)
            self._end_life()

    def _take_another_id(self) -> None:
        self.transactional_id = f"{self.name}-after-{self.begun}"

    def _is_done(self) -> bool:
        return self.is_stopping or self.begun >= self.transactions_max

    def _begin_life(self) -> None:
        self.coordinator = Coordinator(self, self.transactional_id, TRANSACTION)
        self.leaders: dict[TopicPartition, LeaderLink] = {}
        self.producer_id, self.producer_epoch = -1, -1
        self._begin_epoch()

    def _end_life(self) -> None:
        self.coordinator.close()
        for link in self.leaders.values():
            link.close()

    def _begin_epoch(self) -> None:
        self._sequences: dict[TopicPartition, int] = {}
        self.unanswered_before = self.coordinator.unanswered

    # ---- its identity

    def _init_producer_id(self, producer_id: int, producer_epoch: int) -> Script[None]:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        try:
            response = yield from self.coordinator.ask(
                request, InitProducerIdResponse, 5, lambda answer: answer.error_code
            )
        except Failed as error:
            raise self._after(error.code) from None
        self._is_now(response.producer_id, response.producer_epoch)

    def _is_now(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self.producer_id, self.producer_epoch = producer_id, producer_epoch
            self._begin_epoch()
            self.tell("is producer {} in epoch {}", producer_id, producer_epoch)

    def recover(self) -> Script[None]:
        """What a process does before its first transaction."""
        yield self.sleep(0)

    # ---- a transaction

    def _transaction(self) -> Script[None]:
        self.begun += 1
        self.transaction = self.oracle.begun(Label(self.name, self.begun))
        self._is_unresolved = self.has_committed = False
        self._judge()
        is_commit = self.random.random() > ABORTS
        dies = self.random.random() < DIES
        try:
            yield from self.fill(dies)
        except MustAbort as error:
            self.tell("must abort {}: {}", self.begun, str(error))
            is_commit = False
        except Expired:
            self.tell("is not known any more")
            yield from self._init_producer_id(self.producer_id, self.producer_epoch)
            return
        yield from self._end(is_commit)

    def _judge(self) -> None:
        """A client of version 1 cannot be judged in an epoch in which one of its requests may still arrive."""
        if self.rules.adds_partitions and self.coordinator.unanswered > self.unanswered_before:
            self.transaction.is_judged = False

    def fill(self, dies: bool) -> Script[None]:
        """Sends the records. Raises MustAbort if that does not work, and Fenced if it dies in the middle."""
        targets = self.random.sample(list(self.targets), self.random.randint(1, len(self.targets)))
        if self.rules.adds_partitions:
            yield from self.add_partitions(targets)
        for target in targets:
            batches = [self._batch(target) for _ in range(self.random.randint(1, BATCHES_MAX))]
            yield from self.produce(target, batches, dies=dies and target == targets[-1])
            if self.random.random() < THINKS:
                yield self.sleep(self.random.random() * THINKS_MS)

    def add_partitions(self, partitions: Sequence[TopicPartition]) -> Script[None]:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )

        def first_error(answer: AddPartitionsToTxnResponse) -> int:
            codes = [
                partition.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
                if partition.partition_error_code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
            ]
            return codes[0] if codes else 0

        try:
            yield from self.coordinator.ask(request, AddPartitionsToTxnResponse, 3, first_error)
        except Failed as error:
            if error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise Expired from None
            raise self._after(error.code) from None
        finally:
            self._judge()

    def _batch(self, target: TopicPartition) -> Batch:
        records = []
        for _ in range(self.random.randint(1, RECORDS_MAX)):
            records.append(Placed(self.transaction.label, self.numbers))
            self.numbers += 1
        return self.batch_of(target, records)

    def batch_of(self, target: TopicPartition, records: list[Placed]) -> Batch:
        batch = Batch(records, self._sequences.get(target, 0))
        self._sequences[target] = batch.base_sequence + len(records)
        return batch

    def produce(self, target: TopicPartition, batches: list[Batch], *, dies: bool = False) -> Script[None]:
        """Sends batches of one partition, all at once, and again what has failed, in their order."""
        pending = batches
        attempts_left = self.random.choice((1, 2, PATIENCE, PATIENCE))
        while pending:
            if not attempts_left:
                self._is_unresolved = True
                raise MustAbort("there was no answer for too long")
            attempts_left -= 1
            link = self.leaders.get(target) or self.leaders.setdefault(
                target, LeaderLink(self, target, produce_version=self.rules.produce_version)
            )
            promises = [
                link.send(self._request(target, batch), ProduceResponse, timeout_ms=TIMEOUT_MS) for batch in pending
            ]
            if dies:
                yield self.sleep(self.random.random() * 20)
                raise Died
            yield all_done(promises)
            codes = []
            for batch, promise in zip(pending, promises):
                if promise.error is not None:
                    codes.append(ErrorCode.NETWORK_EXCEPTION)
                    continue
                answer = promise.value.responses[0].partition_responses[0]
                codes.append(ErrorCode(answer.error_code))
                if codes[-1] is ErrorCode.NONE:
                    self.oracle.records_acknowledged(self.transaction, target, answer.base_offset, batch.records)
            pending = self._left(pending, codes)
            if pending:
                yield self.back_off()

    def _request(self, target: TopicPartition, batch: Batch) -> ProduceRequest:
        now_ms = self.clock.now_ms()
        records = build_batch(
            [NewRecord(None, value_of(*each), (), now_ms) for each in batch.records],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=target.partition, records=records)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=target.topic, partition_data=[data])],
        )

    def _left(self, pending: list[Batch], codes: list[ErrorCode]) -> list[Batch]:
        """Returns the batches that are to be sent again."""
        left = []
        for index, (batch, code) in enumerate(zip(pending, codes)):
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                continue
            is_out_of_order = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if code not in AGAIN and not (is_out_of_order and index):
                self._is_unresolved = True
                raise self._after(code, of_a_batch=True)
            left.append(batch)
        return left

    def _after(self, code: ErrorCode, *, of_a_batch: bool = False) -> Exception:
        """Returns what an error means for the transaction. That of a batch never says for sure that somebody else has
        the id."""
        if code in FENCED and not (of_a_batch and code is ErrorCode.INVALID_PRODUCER_EPOCH):
            return Fenced()
        abortable = (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
        )
        assert code in abortable, f"{self.name} was answered {code.name}"
        return MustAbort(code.name)

    # ---- its end

    def _end(self, is_commit: bool) -> Script[None]:
        transaction = self.transaction
        self.oracle.asked(transaction, is_commit)
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        try:
            response = yield from self.coordinator.ask(
                request, EndTxnResponse, self.rules.end_version, lambda answer: answer.error_code
            )
        except Failed as error:
            yield from self._not_ended(error.code, is_commit)
            return
        self._told(transaction, is_commit)
        if not self.rules.adds_partitions:
            told = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            self.oracle.goes_on_with(self.transactional_id, self.producer_id, self.producer_epoch + 1, told)
            self._is_now(response.producer_id, response.producer_epoch)
        elif self._is_unresolved:
            yield from self._init_producer_id(self.producer_id, self.producer_epoch)

    def _not_ended(self, code: ErrorCode, is_commit: bool) -> Script[None]:
        """The transaction was ended by somebody else: by its timeout, or by a request that came late."""
        self.tell("cannot end {}: {}", self.begun, code.name)
        if code is ErrorCode.TRANSACTION_ABORTABLE and is_commit:
            yield from self._end(is_commit=False)
            return
        assert code in FENCED or code is ErrorCode.INVALID_TXN_STATE, f"{self.name} asked for an end: {code.name}"
        raise Fenced

    def _told(self, transaction: Transaction, is_commit: bool) -> None:
        self.tell("has {} transaction {}", "committed" if is_commit else "aborted", transaction.label.number)
        self.has_committed = is_commit
        self.oracle.told(transaction, is_commit)
