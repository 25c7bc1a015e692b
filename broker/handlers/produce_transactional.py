"""The transactional batches of a Produce: each is written once it is known to belong to its transaction."""

from barnabas.broker.handlers.produce import Reply
from barnabas.broker.handlers.produce_acknowledgement import Answer
from barnabas.broker.replicas.leader import ACKS_ALL, LeaderPartition
from barnabas.broker.transactions.verification import ClientVersion
from barnabas.broker.transactions.verified_appends import TransactionalProducer
from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import KafkaError, NotLeaderOrFollower
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from barnabas.storage.transactions.guards import VerificationGuard


def append_transactional(reply: Reply, request: ProduceRequest, response: ProduceResponse) -> Answer:
    """Returns a promise of `response`, which is kept when every batch of the request is decided and acknowledged."""
    assert request.transactional_id is not None, "without one the request was refused"
    answer = Answer(request, response, len(reply.waiting) + len(reply.transactional))
    for each in reply.waiting:
        answer.wait(*each)
    batches = [_Batch(reply, answer, *each) for each in reply.transactional]
    first = reply.transactional[0][2]
    client_version = ClientVersion.of_produce(reply.api_version)
    producer = TransactionalProducer(request.transactional_id, first.producer_id, first.producer_epoch, client_version)
    reply.node.transaction_traffic.appends.append(producer, batches)
    return answer


class _Batch:
    """Implements `TransactionalBatch`."""

    __slots__ = ("_answer", "_is_kept", "_reply", "_response", "base_sequence", "batch", "partition")

    def __init__(
        self,
        reply: Reply,
        answer: Answer,
        partition: LeaderPartition,
        batch: memoryview,
        header: BatchHeader,
        response: PartitionProduceResponse,
    ) -> None:
        self._reply = reply
        self._answer = answer
        self._response = response
        self._is_kept = False
        self.partition = partition
        self.batch = batch
        self.base_sequence = header.base_sequence

    def keep(self) -> None:
        if not self._is_kept:
            self._is_kept = True
            self.batch = memoryview(bytearray(self.batch))

    def append(self, guard: VerificationGuard | None) -> None:
        reply, partition = self._reply, self.partition
        try:
            if self._is_kept:
                self._check_still_leads()
            info = reply.write(partition, self.batch, self._response, guard)
        except KafkaError as error:
            return self.refuse(error)
        except Exception as error:  # it belongs to this request, whoever else waits for the same answer
            return self._answer.fail_once(error)
        if info is None or reply.acks == 0 or partition.is_acknowledged(info, reply.acks):
            self._answer.one_done()
        else:
            self._answer.wait(partition, info, self._response)

    def _check_still_leads(self) -> None:
        """Raises if the partition was given away while its batch waited, even if it came back since."""
        partition = self.partition
        if self._reply.node.replicas.partition(*partition.topic_partition) is not partition:
            raise NotLeaderOrFollower(f"{partition.topic_partition} was led by another broker meanwhile")
        if self._reply.acks == ACKS_ALL:
            partition.check_min_isr()

    def refuse(self, error: KafkaError) -> None:
        self._reply.refuse(self._response, error)
        self._answer.one_done()
