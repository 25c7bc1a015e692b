"""What transactional batches meet: a partition with a real log, and a coordinator that answers as a test tells it."""

from collections.abc import Collection
from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.transactions.brokers import Brokers
from barnabas.broker.transactions.verification import ClientVersion, TransactionVerifier
from barnabas.broker.transactions.verified_appends import TransactionalProducer, VerifiedAppends
from barnabas.protocol.batch_header import header_at
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.stored.metadata_records import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC, MetadataImage, empty_image
from barnabas.replication.metadata.image_delta import replayed
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from tests.broker.replicas import leaders
from tests.replication.clusters import uuid
from tests.storage.logs import NOW_MS, ORDERS, TOPIC_ID, Broker, batch, headers_of

US = 1
PRODUCER_ID = 7
OLD, V1, V2 = ClientVersion.OLD, ClientVersion.V1, ClientVersion.V2


def image_of(*topics: tuple[str, int], brokers: Collection[int] = (US,)) -> MetadataImage:
    """Topics of one partition each, with its leader, in a cluster of these brokers."""
    records: list[Any] = []
    for broker_id in brokers:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host=f"broker-{broker_id}", port=9092, security_protocol=0)
        records.append(
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=uuid(100 + broker_id),
                broker_epoch=broker_id,
                end_points=[endpoint],
                features=[],
                rack=None,
                fenced=False,
                log_dirs=[uuid(200 + broker_id)],
            )
        )
    for number, (name, leader) in enumerate(topics):
        records.append(TopicRecord(name=name, topic_id=uuid(number)))
        records.append(
            PartitionRecord(
                partition_id=0,
                topic_id=uuid(number),
                replicas=[abs(leader)],
                isr=[abs(leader)],
                removing_replicas=[],
                adding_replicas=[],
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return replayed(empty_image("cluster"), records)


class Question:
    def __init__(self, producer_epoch: int, partitions: Collection[TopicPartition], *, is_added: bool) -> None:
        self.producer_epoch = producer_epoch
        self.partitions = sorted(partitions)
        self.is_added = is_added
        self.added: Promise[None] = Promise()
        self.verified: Promise[dict[TopicPartition, ErrorCode]] = Promise()

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        if not self.is_added:
            self.verified.resolve(dict.fromkeys(self.partitions, code))
        elif code == ErrorCode.NONE:
            self.added.resolve(None)
        else:
            self.added.fail(KafkaError("refused", code))


class Coordinator:
    """Implements `Coordinator` of `verification.py`."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers_at_once: ErrorCode | None = None

    def add_partitions(
        self,
        _transactional_id: str,
        _producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> Promise[None]:
        assert client_version == 2
        return self._asked(Question(producer_epoch, partitions, is_added=True)).added

    def verify_partitions(
        self, _transactional_id: str, _producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> Promise[dict[TopicPartition, ErrorCode]]:
        return self._asked(Question(producer_epoch, partitions, is_added=False)).verified

    def _asked(self, question: Question) -> Question:
        self.questions.append(question)
        if self.answers_at_once is not None:
            question.answer(self.answers_at_once)
        return question

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answers the latest question."""
        self.questions[-1].answer(code)


class Batch:
    """Implements `TransactionalBatch`: what becomes of it is its outcome."""

    def __init__(self, partition: LeaderPartition, data: bytearray) -> None:
        self.partition = partition
        self.data = memoryview(data)
        self.base_sequence = header_at(data).base_sequence
        self.is_kept = False
        self.outcome: int | ErrorCode | None = None
        """The offset of the batch, or why it was refused."""

    def keep(self) -> None:
        self.is_kept = True

    def append(self, guard: VerificationGuard | None) -> None:
        assert self.outcome is None
        try:
            self.outcome = self.partition.append(self.data, NOW_MS, guard).base_offset
        except KafkaError as error:
            self.outcome = error.code

    def refuse(self, error: KafkaError) -> None:
        assert self.outcome is None
        self.outcome = error.code


class Stage:
    def __init__(self, **properties: str) -> None:
        self.storage = Broker()
        self.clock = self.storage.clock
        self.config = BrokerConfig.parse({name.replace("_", "."): value for name, value in properties.items()})
        self.image = image_of((TRANSACTION_STATE_TOPIC, US))
        self.coordinator = Coordinator()
        brokers = Brokers(self.storage.environment, Buffers(), lambda: self.image, node_id=US, listener="PLAINTEXT")
        self.verifier = TransactionVerifier(brokers, lambda: self.coordinator)
        self.appends = VerifiedAppends(self.verifier, self.clock, lambda: self.config)
        self.partition = self.lead(ORDERS)

    def lead(self, name: TopicPartition) -> LeaderPartition:
        return LeaderPartition(name, TOPIC_ID, self.storage.log(name), leaders.ALONE, leaders.Brokers())

    def send(
        self,
        base_sequence: int = 0,
        *,
        epoch: int = 0,
        client_version: ClientVersion = V2,
        partitions: Collection[LeaderPartition] = (),
    ) -> Batch:
        """Hands in a batch of one record, or one for each of these partitions, and returns the first of them."""
        fields = {"producer_id": PRODUCER_ID, "producer_epoch": epoch, "base_sequence": base_sequence}
        batches = [
            Batch(partition, batch(b"v", transactional=True, **fields))  # type: ignore[arg-type]
            for partition in partitions or (self.partition,)
        ]
        self.appends.append(TransactionalProducer("mover", PRODUCER_ID, epoch, client_version), batches)
        return batches[0]

    def end(self, epoch: int, *, transaction_version: int = 2, is_committed: bool = True) -> None:
        marker = TransactionMarker(PRODUCER_ID, epoch, 0, is_committed, transaction_version)
        self.partition.end_transaction(marker, NOW_MS)

    @property
    def sequences(self) -> list[int]:
        return [header.base_sequence for header in headers_of(self.partition.log)]
