"""Produce (0), versions 3 to 13; 0 to 2 are advertised and refused when sent, as Kafka does (KAFKA-18659).

v5 log start offset, v7 zstd, v8 record errors, v10 the current leader with NOT_LEADER_OR_FOLLOWER, v13 topic ids.

- acks=0 gets no reply; if anything failed the connection is closed, which is the only way to tell that client.
- A reply waits until every partition's append is durable under its topic's policy and committed, or for `timeout_ms`.
- One batch per partition: Kafka allows no more since magic 2.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.partition import Committed, Partition
from barnabas.broker.promise import Promise
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidRecord,
    KafkaError,
    NotLeaderOrFollower,
    ProtocolError,
    UnknownTopicId,
    UnsupportedCompressionType,
)
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.protocol.records import MAGIC, BatchHeader, header_at
from barnabas.storage.log import AppendInfo
from barnabas.storage.validation import InvalidRecords, InvalidTimestamps

_ACKS = frozenset({-1, 0, 1})
_ZSTD_SINCE = 7
_TOPIC_IDS_SINCE = 13


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Promise[ProduceResponse] | None:
    reply = _Reply(broker, request, context.api_version)
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[reply.append(topic, data) for data in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    response = ProduceResponse(responses=topics)
    if request.acks == 0:
        _check_nothing_failed(response)
        return None
    return reply.when_committed(response, request.timeout_ms) if reply.waiting else response


class _Reply:
    """One Produce while it is being answered."""

    __slots__ = ("acks", "api_version", "broker", "transactional_id", "waiting")

    def __init__(self, broker: Broker, request: ProduceRequest, api_version: int) -> None:
        self.broker = broker
        self.acks = request.acks
        self.transactional_id = request.transactional_id
        self.api_version = api_version
        self.waiting: list[tuple[Partition, AppendInfo, PartitionProduceResponse]] = []

    def append(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            partition = self.broker.replicas.partition(self._name(topic), data.index)
            batch = self._one_batch(data)
            if self.acks not in _ACKS:
                raise KafkaError(f"acks={self.acks}; it must be -1, 0 or 1", ErrorCode.INVALID_REQUIRED_ACKS)
            info = partition.append(batch, now_ms=self.broker.clock.now_ms())
        except KafkaError as error:
            return self._refused(topic, data.index, error)
        response = PartitionProduceResponse(
            index=data.index,
            error_code=0,
            base_offset=info.base_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
        )
        if not partition.is_committed(info):
            self.waiting.append((partition, info, response))
        return response

    def _name(self, topic: TopicProduceData) -> str:
        if self.api_version < _TOPIC_IDS_SINCE:
            return topic.name
        image = self.broker.image.topic_by_id(topic.topic_id)
        if image is None:
            raise UnknownTopicId("no topic has this id")
        return image.name

    def _one_batch(self, data: PartitionProduceData) -> memoryview:
        records = data.records
        if not isinstance(records, memoryview) or not records:
            raise InvalidRecord("a produce request must carry one record batch for each partition")
        try:
            header = header_at(records)
        except ProtocolError as error:
            raise InvalidRecord(str(error)) from None
        if header.size_bytes != len(records):
            _refuse_other_than_one_batch(records, header)
        if header.is_transactional:
            self._refuse_transaction()
        if header.compression == CompressionType.ZSTD and self.api_version < _ZSTD_SINCE:
            raise UnsupportedCompressionType(f"zstd needs Produce {_ZSTD_SINCE}, not {self.api_version}")
        return records

    def _refuse_transaction(self) -> None:
        """There is no coordinator yet that could end one, and a transaction that never ends hides all that follows."""
        if self.transactional_id is None:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            raise KafkaError("a transactional batch in a request without a transactional id", code)
        raise KafkaError(f"{self.transactional_id} has no transaction under way", ErrorCode.INVALID_TXN_STATE)

    def _refused(self, topic: TopicProduceData, index: int, error: KafkaError) -> PartitionProduceResponse:
        refused = PartitionProduceResponse(
            index=index, error_code=error.code, base_offset=-1, error_message=error.message or None
        )
        if isinstance(error, (InvalidRecords, InvalidTimestamps)):
            refused.record_errors = [
                BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
                for record in error.record_errors
            ]
        if isinstance(error, NotLeaderOrFollower) and (image := self.broker.image.partition(self._name(topic), index)):
            refused.current_leader = LeaderIdAndEpoch(leader_id=image.leader, leader_epoch=image.leader_epoch)
        return refused

    def when_committed(self, response: ProduceResponse, timeout_ms: int) -> Promise[ProduceResponse]:
        """A promise of `response`, with an error in the place of each partition that is not committed in time."""
        promise: Promise[ProduceResponse] = Promise()
        left = {id(told): told for _, _, told in self.waiting}

        def when_told(told: PartitionProduceResponse) -> Committed:
            def committed(error: KafkaError | None) -> None:
                if left.pop(id(told), None) is None:
                    return  # it was too late
                if error is not None:
                    _fail(told, error)
                if not left:
                    timer.cancel()
                    promise.resolve(response)

            return committed

        def too_late() -> None:
            for told in left.values():
                _fail(told, KafkaError("not committed within the request's timeout", ErrorCode.REQUEST_TIMED_OUT))
            left.clear()
            promise.resolve(response)

        timer = self.broker.clock.call_later(timeout_ms, too_late)
        for partition, info, told in self.waiting:
            partition.when_committed(info, when_told(told))
        return promise


def _refuse_other_than_one_batch(records: memoryview, first: BatchHeader) -> None:
    """Half a batch is none, and two are one too many; but what follows a wrong length is no batch."""
    if first.size_bytes > len(records):
        raise InvalidRecord(f"a batch of {first.size_bytes} bytes in {len(records)}")
    try:
        follows = header_at(records, first.size_bytes) if first.batch_length > 0 else None
    except ProtocolError:
        follows = None
    if follows is None or follows.magic != MAGIC:
        raise CorruptMessage(f"a batch of length {first.batch_length}, and no other behind it")
    raise InvalidRecord("a produce request must carry exactly one record batch for each partition")


def _fail(told: PartitionProduceResponse, error: KafkaError) -> None:
    told.error_code = error.code
    told.error_message = error.message
    told.base_offset = told.log_append_time_ms = told.log_start_offset = -1


def _check_nothing_failed(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = ErrorCode(partition.error_code).name
                raise ProtocolError(f"a Produce with acks=0 failed: {topic.name}-{partition.index}: {name}")
