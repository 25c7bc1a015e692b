"""Questions to transaction coordinators on other brokers: does a partition belong to a transaction, or can it be added?

Rules:
- AddPartitionsToTxn 4 and later carries many transactions. There is one request in flight to each broker, and what is
  asked meanwhile goes into the next.
- A request holds a transactional id once, because its answers are told apart by it. Another question of the same
  producer waits for the request after it; where Kafka answers the earlier one NETWORK_EXCEPTION, it keeps its turn.
- A newer epoch answers what waits of an older one with INVALID_PRODUCER_EPOCH, and an older one is refused at once.
"""

from collections.abc import Iterable, Sequence

from barnabas.base.promise import Promise, resolved
from barnabas.broker.transactions.brokers import REQUEST_TIMEOUT_MS, Brokers
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.types import TopicPartition

Outcome = dict[TopicPartition, ErrorCode]
"""What the coordinator says of each partition."""


class _Question:
    __slots__ = ("outcome", "partitions", "producer_epoch", "producer_id", "transactional_id", "verify_only")

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        verify_only: bool,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partitions = partitions
        self.verify_only = verify_only
        self.outcome: Promise[Outcome] = Promise()

    def to_transaction(self) -> AddPartitionsToTxnTransaction:
        topics: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            topics.setdefault(topic, []).append(index)
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            verify_only=self.verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )

    def settle(self, code: ErrorCode) -> None:
        self.outcome.resolve(dict.fromkeys(self.partitions, code))


class RemoteCoordinators:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._clients = brokers.clients("transaction-verifier")
        self._waiting: dict[int, list[_Question]] = {}
        self._asked: set[int] = set()
        """The brokers to which a request is in flight, or leaves at the end of this turn."""
        self._is_closed = False

    def ask(
        self,
        broker_id: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Promise[Outcome]:
        """Returns a promise of what that broker says. It does not fail."""
        question = _Question(transactional_id, producer_id, producer_epoch, partitions, verify_only)
        waiting = self._waiting.setdefault(broker_id, [])
        same_id = [other for other in waiting if other.transactional_id == transactional_id]
        if self._is_closed:
            return resolved(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if any(_is_newer(other, question) for other in same_id):
            return resolved(dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH))
        waiting.append(question)
        for other in same_id:
            if _is_newer(question, other):
                waiting.remove(other)
                other.settle(ErrorCode.INVALID_PRODUCER_EPOCH)
        if broker_id not in self._asked:
            self._asked.add(broker_id)
            self._brokers.clock.call_soon(self._send, broker_id)
        return question.outcome

    def close(self) -> None:
        self._is_closed = True
        self._clients.close()

    def _send(self, broker_id: int) -> None:
        asked: dict[str, _Question] = {}
        later: list[_Question] = []
        for question in self._waiting.pop(broker_id, ()):
            if asked.setdefault(question.transactional_id, question) is not question:
                later.append(question)
        if later:
            self._waiting[broker_id] = later
        client = None if self._is_closed else self._brokers.client(self._clients, broker_id)
        if client is None:
            _settle(asked.values(), ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return self._answered(broker_id)
        request = AddPartitionsToTxnRequest(transactions=[question.to_transaction() for question in asked.values()])
        answer = client.send(request, AddPartitionsToTxnResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        answer.when_done(lambda kept: self._on_answer(broker_id, asked, kept))

    def _on_answer(
        self, broker_id: int, asked: dict[str, _Question], answer: Promise[AddPartitionsToTxnResponse]
    ) -> None:
        if answer.error is not None:
            assert isinstance(answer.error, KafkaError), repr(answer.error)
            is_served = answer.error.code != ErrorCode.UNSUPPORTED_VERSION
            # Kafka goes on unverified where the coordinator's broker is too old to be asked: it would leave hanging
            # transactions behind, so we have the client wait until that broker is a new one.
            _settle(asked.values(), ErrorCode.NETWORK_EXCEPTION if is_served else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif answer.value.error_code:
            code = ErrorCode(answer.value.error_code)
            # A client must not be told that this broker may not do something.
            is_ours = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            _settle(asked.values(), ErrorCode.INVALID_TXN_STATE if is_ours else code)
        else:
            outcomes = {result.transactional_id: _outcome(result) for result in answer.value.results_by_transaction}
            for transactional_id, question in asked.items():
                found = outcomes.get(transactional_id, {})
                missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
                question.outcome.resolve({name: found.get(name, missing) for name in question.partitions})
        self._answered(broker_id)

    def _answered(self, broker_id: int) -> None:
        """Asks what came up meanwhile."""
        if broker_id in self._waiting:
            self._brokers.clock.call_soon(self._send, broker_id)
        else:
            self._asked.discard(broker_id)


def _is_newer(one: _Question, other: _Question) -> bool:
    return one.producer_id == other.producer_id and one.producer_epoch > other.producer_epoch


def _settle(questions: Iterable[_Question], code: ErrorCode) -> None:
    for question in questions:
        question.settle(code)


def _outcome(result: AddPartitionsToTxnResult) -> Outcome:
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
