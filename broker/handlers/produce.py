"""Produce (0), versions 3 to 13; 0 to 2 are advertised and refused when sent, as Kafka does (KAFKA-18659).

v5 log start offset, v7 zstd, v8 record errors, v10 the current leader and its address with NOT_LEADER_OR_FOLLOWER
(KIP-951), v13 topic ids.

- acks=0 gets no reply; if anything failed the connection is closed: there is no other way to let that client know.
- A reply waits until every partition's append is durable under its topic's policy and, with acks=-1, committed; or for
  `timeout_ms`.
- One batch per partition: Kafka allows no more since magic 2.
- A batch that cannot be one, or a transactional one without a transactional id, refuses the request as a whole. So do
  transactional batches of two producers.
- A transactional batch is written when the transaction's coordinator agrees (KIP-890): before v12 the partition must
  have been added to the transaction, since v12 it is added now. v11 knows TRANSACTION_ABORTABLE.
"""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.broker.handlers.current_leader import name_leaders
from barnabas.broker.handlers.produce_acknowledgement import Waiting, when_acknowledged
from barnabas.broker.node import Node
from barnabas.broker.replicas.leader import ACKS_ALL, LeaderPartition
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.batch_header import (
    ATTRIBUTES_LOW_BYTE_AT,
    BATCH_LENGTH_AT,
    HEADER_BYTES,
    INT32,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    header_at,
)
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidRecord,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    ProtocolError,
    UnknownTopicId,
    UnsupportedCompressionType,
)
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.replication.metadata.image import INTERNAL_TOPICS
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.validation import InvalidRecords, InvalidTimestamps

_ACKS = frozenset({-1, 0, 1})
_ZSTD_SINCE = 7
_BATCH_LENGTH_MIN = 14
"""The length of the smallest record of the oldest format: Kafka takes anything below for corrupt."""
_WITHOUT_LOG_START_OFFSET = (CorruptMessage, KafkaStorageError, MessageTooLarge)
"""Refusals by the log after which the answer does not say where the log starts."""
_TOPIC_IDS_SINCE = 13
_ADMIN_CLIENT = "__admin_client"
"""A client of that name may write to internal topics, as with Kafka: it is how offsets are repaired by hand."""


def handle(
    node: Node, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Promise[ProduceResponse] | Promise[None] | None:
    reply = Reply(node, request, context)
    reply.refusal = _refusal_of_all(request)
    response = ProduceResponse(responses=[reply.topic(topic) for topic in _distinct(request.topic_data)])
    if reply.transactional:
        return _in_transaction(reply, request, response, context)
    if request.acks == 0:
        _check_nothing_failed(response)
        return None
    if reply.waiting:
        acknowledged = when_acknowledged(reply.waiting, response, request)
        return acknowledged.map(lambda answered: _with_leaders(node, answered, context))
    return _with_leaders(node, response, context) if reply.is_led_elsewhere else response


def _in_transaction(
    reply: "Reply", request: ProduceRequest, response: ProduceResponse, context: RequestContext
) -> Promise[ProduceResponse] | Promise[None]:
    from barnabas.broker.handlers.produce_transactional import append_transactional  # nobody else needs it

    appended = append_transactional(reply, request, response)
    if request.acks == 0:
        return appended.map(_check_nothing_failed)
    return appended.map(lambda answered: _with_leaders(reply.node, answered, context))


def _with_leaders(node: Node, response: ProduceResponse, context: RequestContext) -> ProduceResponse:
    name_leaders(node, context.session, context.api_version, response)
    return response


def _distinct(topics: Sequence[TopicProduceData]) -> Sequence[TopicProduceData]:
    """Returns the topics with each partition once. Nearly every request is like that; the others are put in order."""
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return topics
    asked = (((topic.name, topic.topic_id), data.index, data) for topic in topics for data in topic.partition_data)
    return [
        TopicProduceData(name=name, topic_id=topic_id, partition_data=list(partitions.values()))
        for (name, topic_id), partitions in distinct_partitions(asked).items()
    ]


def _refusal_of_all(request: ProduceRequest) -> KafkaError | None:
    """Returns the reason to refuse the whole request before anything is written: what Kafka finds when it looks for
    transactional batches."""
    producers: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not isinstance(records, memoryview):
                continue
            try:
                size = _batch_size(records, 0)
            except CorruptMessage as error:
                return error
            if size is None or records[MAGIC_AT] != MAGIC or not records[ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_FLAG:
                continue
            if request.transactional_id is None:
                code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                return KafkaError("a transactional batch in a request without a transactional id", code)
            header = header_at(records) if size >= HEADER_BYTES else None
            if header is not None and header.has_producer_id:
                producers.add((header.producer_id, header.producer_epoch))
    if len(producers) > 1:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return KafkaError("transactional batches of more than one producer", code)
    return None


class Reply:
    """One Produce while it is being answered."""

    __slots__ = (
        "acks", "api_version", "is_led_elsewhere", "may_write_internal", "node", "refusal", "transactional",
        "waiting",
    )  # fmt: skip

    def __init__(self, node: Node, request: ProduceRequest, context: RequestContext) -> None:
        self.node = node
        self.acks = request.acks
        self.api_version = context.api_version
        self.may_write_internal = context.client_id == _ADMIN_CLIENT
        self.refusal: KafkaError | None = None
        self.is_led_elsewhere = False
        """Whether a partition of the request is led by another broker, of which the answer tells."""
        self.waiting: list[Waiting] = []
        self.transactional: list[tuple[LeaderPartition, memoryview, BatchHeader, PartitionProduceResponse]] = []
        """The batches that are written when it is known that they belong to their transaction."""

    def topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        return TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[self.append(topic, data) for data in topic.partition_data],
        )

    def append(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        response = PartitionProduceResponse(index=data.index, error_code=0, base_offset=-1)
        if self.refusal is not None:
            self.refuse(response, self.refusal)
            return response
        try:
            name = self._name(topic)
            if name in INTERNAL_TOPICS and not self.may_write_internal and self.node.image.partition(name, data.index):
                raise KafkaError(f"{name} is written by the broker only", ErrorCode.INVALID_TOPIC_EXCEPTION)
            partition = self.node.replicas.partition(name, data.index)
            batch = self._one_batch(data)
            if self.acks not in _ACKS:
                raise KafkaError(f"acks={self.acks}; it must be -1, 0 or 1", ErrorCode.INVALID_REQUIRED_ACKS)
            if self.acks == ACKS_ALL:
                partition.check_min_isr()
        except KafkaError as error:
            self.refuse(response, error)
            return response
        if batch[ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_FLAG:
            header = header_at(batch)
            if header.has_producer_id:
                self.transactional.append((partition, batch, header, response))
                return response
        info = self.write(partition, batch, response)
        if info is not None and not partition.is_acknowledged(info, self.acks):
            self.waiting.append((partition, info, response))
        return response

    def write(
        self,
        partition: LeaderPartition,
        batch: memoryview,
        response: PartitionProduceResponse,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo | None:
        """Appends the batch and says so in the response. Returns None if the log refuses it."""
        try:
            info = partition.append(batch, self.node.clock.now_ms(), guard)
        except KafkaError as error:
            self.refuse(response, error)
            if not isinstance(error, _WITHOUT_LOG_START_OFFSET):
                response.log_start_offset = partition.log.log_start_offset
            return None
        response.base_offset = info.base_offset
        response.log_append_time_ms = info.log_append_time
        response.log_start_offset = info.log_start_offset
        return info

    def _name(self, topic: TopicProduceData) -> str:
        if self.api_version < _TOPIC_IDS_SINCE:
            return topic.name
        image = self.node.image.topic_by_id(topic.topic_id)
        if image is None:
            raise UnknownTopicId("no topic has this id")
        return image.name

    def _one_batch(self, data: PartitionProduceData) -> memoryview:
        records = data.records
        size = _batch_size(records, 0) if isinstance(records, memoryview) else None
        if size is None:
            raise InvalidRecord("a produce request must carry one record batch for each partition")
        assert isinstance(records, memoryview)
        if size != len(records):
            if _batch_size(records, size) is not None:
                raise InvalidRecord("a produce request must carry exactly one record batch for each partition")
            records = records[:size]  # half a batch after it is ignored, as by Kafka
        if records[MAGIC_AT] != MAGIC:
            raise InvalidRecord(f"a batch of magic {records[MAGIC_AT]}: only magic {MAGIC} is taken")
        if size < HEADER_BYTES:
            raise CorruptMessage(f"a batch of {size} bytes")
        if self.api_version < _ZSTD_SINCE and header_at(records).compression == CompressionType.ZSTD:
            raise UnsupportedCompressionType(f"zstd needs Produce {_ZSTD_SINCE}, not {self.api_version}")
        return records

    def refuse(self, response: PartitionProduceResponse, error: KafkaError) -> None:
        response.error_code = error.code
        response.error_message = error.message or None
        if isinstance(error, (InvalidRecords, InvalidTimestamps)):
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
                for record in error.record_errors
            ]
        self.is_led_elsewhere |= isinstance(error, NotLeaderOrFollower)


def _batch_size(records: memoryview, position: int) -> int | None:
    """Returns the size of the batch at this position, or None if there is none or only a part of one. Raises
    CorruptMessage if the bytes cannot be the beginning of a batch."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return None
    length: int = INT32.unpack_from(records, position + BATCH_LENGTH_AT)[0]
    if length < _BATCH_LENGTH_MIN:
        raise CorruptMessage(f"a batch of length {length}")
    if left > MAGIC_AT and records[position + MAGIC_AT] > MAGIC:
        raise CorruptMessage(f"a batch of magic {records[position + MAGIC_AT]}")
    size = LOG_OVERHEAD + length
    return size if left >= size else None


def _check_nothing_failed(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = ErrorCode(partition.error_code).name
                raise ProtocolError(f"a Produce with acks=0 failed: {topic.name}-{partition.index}: {name}")
