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
    ErrorCode,
    InvalidRecord,
    KafkaError,
    NotLeaderOrFollower,
    ProtocolError,
    UnknownTopicId,
    UnsupportedCompressionType,
)
from barnabas.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.protocol.records import header_at
from barnabas.storage.log import AppendInfo

_ACKS = frozenset({-1, 0, 1})
_ZSTD_SINCE = 7
_TOPIC_IDS_SINCE = 13


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Promise[ProduceResponse] | None:
    reply = _Reply(broker, request.acks, context.api_version)
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

    __slots__ = ("acks", "api_version", "broker", "waiting")

    def __init__(self, broker: Broker, acks: int, api_version: int) -> None:
        self.broker = broker
        self.acks = acks
        self.api_version = api_version
        self.waiting: list[tuple[Partition, AppendInfo, PartitionProduceResponse]] = []

    def append(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            if self.acks not in _ACKS:
                raise KafkaError(f"acks={self.acks}; it must be -1, 0 or 1", ErrorCode.INVALID_REQUIRED_ACKS)
            batch = self._one_batch(data)
            partition = self.broker.replicas.partition(self._name(topic), data.index)
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
            raise KafkaError(str(error), ErrorCode.CORRUPT_MESSAGE) from None
        if 0 < header.size_bytes < len(records):
            raise InvalidRecord("a produce request must carry exactly one record batch for each partition")
        if header.compression == CompressionType.ZSTD and self.api_version < _ZSTD_SINCE:
            raise UnsupportedCompressionType(f"zstd needs Produce {_ZSTD_SINCE}, not {self.api_version}")
        return records

    def _refused(self, topic: TopicProduceData, index: int, error: KafkaError) -> PartitionProduceResponse:
        refused = PartitionProduceResponse(
            index=index, error_code=error.code, base_offset=-1, error_message=error.message or None
        )
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
