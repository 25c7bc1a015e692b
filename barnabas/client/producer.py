"""Producing: which partition a record goes to, and how records travel there.

Rules:
- A record with a key goes where Java's default partitioner sends it; one without goes to the next partition in turn.
- `send` returns when every record is acknowledged. One request per leader is in flight: partitions keep their order.
- A batch that was refused without being appended is sent again; one whose answer never came is not, because it may
  have been appended. The error then says how many records were acknowledged before.
"""

from collections.abc import Iterable, Sequence
from struct import unpack
from typing import Any

from barnabas.client.client import Client
from barnabas.client.cluster import Partition, Topic, by_leader
from barnabas.client.errors import RETRIABLE, Unreachable
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.protocol.records import NewRecord
from barnabas.protocol.types import ZERO_UUID

BATCH_BYTES_MAX = 500_000
"""Well below a topic's default max.message.bytes; a larger record travels alone and the broker decides."""
RECORD_OVERHEAD_BYTES = 24
LAST_VERSION_WITH_NAMES = 12


def murmur2(data: bytes) -> int:
    """Returns the 32-bit hash of Java's default partitioner, unsigned."""
    length = len(data)
    m = 0x5BD1E995
    h = 0x9747B28C ^ length
    whole = length & ~3
    for k in unpack(f"<{whole // 4}I", data[:whole]):
        k = k * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = h * m & 0xFFFFFFFF ^ k
    if whole != length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


def partition_of_key(key: bytes, num_partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % num_partitions


class Batch:
    """Records of one partition that travel together."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.bytes = 0

    @property
    def payload_bytes(self) -> int:
        """Counts the bytes of keys, values and headers."""
        return self.bytes - RECORD_OVERHEAD_BYTES * len(self.records)

    def has_room_for(self, size_bytes: int) -> bool:
        return not self.records or self.bytes + size_bytes <= BATCH_BYTES_MAX

    def add(self, record: NewRecord, size_bytes: int) -> None:
        self.records.append(record)
        self.bytes += size_bytes


class Producer:
    def __init__(
        self,
        client: Client,
        topic: Topic,
        *,
        acks: int = -1,
        compression: CompressionType = CompressionType.NONE,
        partition: int | None = None,
    ) -> None:
        self.client = client
        self.topic = topic
        self.acks = acks
        self.compression = compression
        self.partition = partition
        self.records_acknowledged = 0
        self.bytes_acknowledged = 0
        self._next_without_key = 0
        self._leaders_moved = False

    def send(self, records: Iterable[NewRecord]) -> None:
        queues = self._batches(records)
        while queues:
            self._send_round({partition: queue[0] for partition, queue in queues.items()})
            queues = {partition: queue[1:] for partition, queue in queues.items() if len(queue) > 1}

    def _batches(self, records: Iterable[NewRecord]) -> dict[int, list[Batch]]:
        queues: dict[int, list[Batch]] = {}
        for record in records:
            partition = self._partition_of(record)
            size_bytes = _size_bytes(record)
            queue = queues.setdefault(partition, [])
            if not queue or not queue[-1].has_room_for(size_bytes):
                queue.append(Batch())
            queue[-1].add(record, size_bytes)
        return queues

    def _partition_of(self, record: NewRecord) -> int:
        if self.partition is not None:
            return self.partition
        if record.key is not None:
            return partition_of_key(record.key, len(self.topic.partitions))
        self._next_without_key = (self._next_without_key + 1) % len(self.topic.partitions)
        return self._next_without_key

    def _send_round(self, batches: dict[int, Batch]) -> None:
        """Sends at most one batch per partition and waits until all are acknowledged."""
        unsent = {index: build_batch(batch.records, compression=self.compression) for index, batch in batches.items()}

        def attempt() -> None:
            if self._leaders_moved:
                self.topic = self.client.topic(self.topic.name)
                self._leaders_moved = False
            self._deliver(unsent, batches)

        self.client.retry(attempt)

    def _deliver(self, unsent: dict[int, bytearray], batches: dict[int, Batch]) -> None:
        """Takes out of `unsent` what is acknowledged; raises if anything is left."""
        refused: KafkaError | None = None
        for answer in self._exchange(unsent):
            if answer.error_code == ErrorCode.NONE:
                del unsent[answer.index]
                self.records_acknowledged += len(batches[answer.index].records)
                self.bytes_acknowledged += batches[answer.index].payload_bytes
            elif refused is None or refused.code in RETRIABLE:
                refused = _refusal(self.topic.name, answer)
        if refused is not None:
            self._leaders_moved = True
            raise refused

    def _exchange(self, batches: dict[int, bytearray]) -> list[PartitionProduceResponse]:
        """Sends to every leader, then waits for every answer; without acks there is none to wait for."""
        leaders = by_leader(partition for partition in self.topic.partitions if partition.partition_index in batches)
        self._connect(leaders)
        for leader_id, partitions in leaders.items():
            self._send_to(leader_id, partitions, batches)
        if self.acks == 0:
            return [PartitionProduceResponse(index=index, error_code=0, base_offset=-1) for index in batches]
        answers: list[PartitionProduceResponse] = []
        for leader_id in leaders:
            for topic in self.client.node(leader_id).receive(ProduceResponse).responses:
                answers += topic.partition_responses
        return answers

    def _connect(self, leaders: Iterable[int]) -> None:
        """Connects to the leader. A dead one is no worse than one that moved, because nothing was sent: another will be
        found."""
        try:
            for leader_id in leaders:
                self.client.node(leader_id)
        except Unreachable as error:
            self._leaders_moved = True
            raise KafkaError(str(error), ErrorCode.BROKER_NOT_AVAILABLE) from None

    def _send_to(self, leader_id: int, partitions: Sequence[Partition], batches: dict[int, bytearray]) -> None:
        connection = self.client.node(leader_id)
        knows_id = self.topic.topic_id != ZERO_UUID
        version = connection.version_of(ProduceRequest, None if knows_id else LAST_VERSION_WITH_NAMES)
        data: list[Any] = [
            PartitionProduceData(index=each.partition_index, records=batches[each.partition_index])
            for each in partitions
        ]
        topic = TopicProduceData(name=self.topic.name, topic_id=self.topic.topic_id, partition_data=data)
        request = ProduceRequest(acks=self.acks, timeout_ms=int(self.client.timeout_s * 1000), topic_data=[topic])
        connection.send(request, ProduceResponse if self.acks else None, version)


def _size_bytes(record: NewRecord) -> int:
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size


def _refusal(topic: str, answer: PartitionProduceResponse) -> KafkaError:
    reasons = [error.batch_index_error_message for error in answer.record_errors if error.batch_index_error_message]
    reason = answer.error_message or (reasons[0] if reasons else None)
    about = f"partition {answer.index} of topic {topic} refused the records"
    return KafkaError(f"{about}: {reason}" if reason else about, ErrorCode(answer.error_code))
