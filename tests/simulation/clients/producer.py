"""An idempotent producer with the rules of Java's.

- At most five requests are under way. Batches of a partition leave in the order of their sequence numbers.
- A batch whose fate is unknown, or that may be tried again, is sent again under the same sequence number: alone, and
  only when it is the first in line. When a connection breaks, what was not sent is taken back, too: a batch must not
  arrive before the ones ahead of it are tried again.
- OUT_OF_ORDER_SEQUENCE_NUMBER means "try again" for all but the first in line. For that one it means that the broker
  has lost what it acknowledged before: the batch fails, and the producer goes on under another epoch, from sequence 0.
- After an error it waits, for longer and longer as long as nothing gets through.
- It never gives up: its delivery.timeout.ms is infinite.
"""

from barnabas.base.promise import Promise
from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.protocol.records import NewRecord
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import BACKOFF_MS, REQUEST_TIMEOUT_MS, Failed, Place, SimulatedClient, check
from tests.simulation.clients.script import Script
from tests.simulation.scenarios.oracle import Sent

MAX_IN_FLIGHT = 5
BACKOFF_MAX_MS = 800
RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
LOST_STATE = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


class Batch:
    __slots__ = ("attempts", "base_sequence", "is_in_flight", "numbers")

    def __init__(self, numbers: list[int], base_sequence: int) -> None:
        self.numbers = numbers
        self.base_sequence = base_sequence
        self.is_in_flight = False
        self.attempts = 0


class IdempotentProducer(SimulatedClient):
    """Produces numbered records to one partition, a batch every now and then."""

    acks = -1
    max_in_flight = MAX_IN_FLIGHT

    def __init__(self, place: Place, name: str, *, target: TopicPartition, interval_ms: float) -> None:
        super().__init__(place, name)
        self.target = target
        self.interval_ms = interval_ms
        self._produced = 0

    def prepare(self) -> None:
        self._link = self.link()
        self._batches: list[Batch] = []
        self._producer_id = -1
        self._producer_epoch = -1
        self._next_sequence = 0
        self._must_bump = False
        self._backoff_ms = BACKOFF_MS
        self._is_backing_off = False
        self._drained: Promise[None] | None = None

    def script(self) -> Script[None]:
        yield from self._init_producer_id()
        while not self.is_stopping:
            yield self.sleep(self.random.expovariate(1) * self.interval_ms)
            self._produce()
        yield from self.drain()

    def drain(self) -> Script[None]:
        """Waits until nothing is left to be sent or answered."""
        if self._batches:
            self._drained = Promise()
            yield self._drained

    def _init_producer_id(self) -> Script[None]:
        while self._producer_id < 0:
            yield from self._try_init_producer_id()

    def _try_init_producer_id(self) -> Script[None]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        try:
            response = yield self._link.send(request, InitProducerIdResponse, max_version=4)
            check(response.error_code)
        except (KafkaError, Failed):
            yield self.back_off()
        else:
            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
            self.oracle.producer_id_given(self._producer_id)

    def _produce(self) -> None:
        count = self.random.randint(1, 3)
        numbers = list(range(self._produced, self._produced + count))
        self._produced += count
        self._batches.append(Batch(numbers, self._next_sequence))
        self._next_sequence += count
        self._send_what_may_be_sent()

    def _send_what_may_be_sent(self) -> None:
        in_flight = len([batch for batch in self._batches if batch.is_in_flight])
        if self._must_bump:
            if in_flight:
                return
            self._bump_epoch()
        for index, batch in enumerate(self._batches):
            if batch.is_in_flight:
                continue
            if in_flight == self.max_in_flight or (batch.attempts and index):
                return
            in_flight += 1
            self._send(batch)

    def _bump_epoch(self) -> None:
        self._must_bump = False
        self._producer_epoch += 1
        self.tell("goes on with producer epoch {}", self._producer_epoch)
        self._next_sequence = 0
        for batch in self._batches:
            batch.base_sequence = self._next_sequence
            batch.attempts = 0
            self._next_sequence += len(batch.numbers)

    def _send(self, batch: Batch) -> None:
        batch.is_in_flight = True
        batch.attempts += 1
        now_ms = self.clock.now_ms()
        records = build_batch(
            [NewRecord(None, b"%s %d" % (self.name.encode(), number), (), now_ms) for number in batch.numbers],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.base_sequence,
        )
        data = PartitionProduceData(index=self.target.partition, records=records)
        topic = TopicProduceData(name=self.target.topic, partition_data=[data])
        request = ProduceRequest(acks=self.acks, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=[topic])
        link, power_cuts = self._link, self.oracle.power_cuts
        link.send(request, ProduceResponse, max_version=9).when_done(
            lambda promise: self._answered(batch, promise, link, Sent(power_cuts, topic.topic_id))
        )

    def _answered(self, batch: Batch, promise: Promise[ProduceResponse], link: PeerClient, sent: Sent) -> None:
        batch.is_in_flight = False
        if promise.error is not None:
            if link is self._link:
                self._link = self.link()
                link.close()
            return self._try_again_later()
        answer = promise.value.responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._backoff_ms = BACKOFF_MS
            if self.acks == -1:  # nothing is promised about the others
                self.oracle.acknowledged(self.name, self.target, batch.numbers, answer.base_offset, sent)
            self._is_done_with(batch)
        elif code in LOST_STATE and batch is self._batches[0]:
            if self.acks != -1:
                pending = (number for each in self._batches for number in each.numbers)
                self.oracle.doubted(self.name, self.target, pending)
            else:
                self.oracle.refused(self.name, self.target, batch.numbers, code)
            self._must_bump = True
            self._is_done_with(batch)
        else:
            assert code in RETRIABLE or code in LOST_STATE, f"{self.name} was answered {code.name}"
            self._try_again_later()

    def _is_done_with(self, batch: Batch) -> None:
        self._batches.remove(batch)
        if not self._batches and self._drained is not None:
            self._drained.resolve(None)
        self._send_what_may_be_sent()

    def _try_again_later(self) -> None:
        if not self._is_backing_off:
            self._is_backing_off = True
            self.sleep(self._backoff_ms * (0.5 + self.random.random())).when_done(lambda _: self._try_again())
            self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MAX_MS)

    def _try_again(self) -> None:
        self._is_backing_off = False
        self._send_what_may_be_sent()
