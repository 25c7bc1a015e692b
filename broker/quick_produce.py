"""Produce of one batch to one partition, without the general machinery: who sends record by record sends nothing else.

The general way decodes the request into objects and encodes the answer out of objects, which costs more than the append
between them. Here the few fields are read where they lie, and the answer is packed around what the encoder once made of
such an answer. Nothing is decided here: a request that is unusual in any way, or whose batch the log refuses, is left
to the general way, which begins from the beginning: a refused append has left nothing behind. Only what a disk refuses
is told at once: it would be asked a second time otherwise.
"""

from struct import Struct
from struct import error as StructError

from barnabas.broker.acknowledgement import fail, too_late_error
from barnabas.broker.connection import Frame, Reply
from barnabas.broker.partition import Partition
from barnabas.broker.promise import Promise
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.protocol.errors import KafkaError, KafkaStorageError, ProtocolError
from barnabas.protocol.frame import SIZE_BYTES, encode_response
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.protocol.primitives import read_uvarint
from barnabas.replication.image import INTERNAL_TOPICS
from barnabas.storage.log import AppendInfo
from barnabas.storage.seams import Clock

VERSIONS = range(7, 13)
"""Those in which a topic has its name, and which know every codec."""
_FLEXIBLE_SINCE = 9

_HEADER = Struct(">hhih")  # api key, version, correlation id, length of the client id
_START = Struct(">hhiih")  # length of the transactional id, acks, timeout, count of topics, length of a name
_PARTITION = Struct(">iii")  # count of partitions, index, length of the records
_FLEXIBLE_START = Struct(">BBhiBB")  # the same behind the tags of the header
_FLEXIBLE_PARTITION = Struct(">Bi")  # count of partitions, index; the length of the records has a length of its own
_unpack_header, _HEADER_BYTES = _HEADER.unpack_from, _HEADER.size
_unpack_start, _START_BYTES = _START.unpack_from, _START.size
_unpack_partition, _PARTITION_BYTES = _PARTITION.unpack_from, _PARTITION.size
_NO_STRING = -1
_FLEXIBLE_ONE = 2  # as compact arrays count
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_ONE_BYTE_MAX = 0x7F
_ATTRIBUTES_AT = 22
_TRANSACTIONAL_OR_CONTROL = 0x30
_TEMPLATES_MAX = 1_000

_FIELDS = Struct(">ihqqq")  # index, error code, base offset, log append time, log start offset
_MARKS = (0x1112_1314, 0x2122, 0x3132_3334_3536_3738, 0x4142_4344_4546_4748, 0x5152_5354_5556_5758)
_START_OF_REPLY = 2 * SIZE_BYTES  # size, correlation id

Found = tuple[int, int, str, int, memoryview]
"""Acks, timeout, topic, index, batch."""
Template = tuple[Struct, int, bytes, bytes]
"""How a reply is laid out, the size that it tells, and what stands before and behind its numbers."""


class QuickProduce:
    __slots__ = ("_now_ms", "_partition", "_templates", "clock")

    def __init__(self, replicas: ReplicaManager, clock: Clock) -> None:
        self._partition = replicas.partition
        self.clock = clock
        self._now_ms = clock.now_ms
        self._templates: dict[tuple[str, int], Template] = {}

    def __call__(self, frame: memoryview) -> Promise[Reply] | Reply:
        """The answer to a frame that begins as a Produce does; None for what is to go the general way."""
        try:
            _, version, correlation_id, length = _unpack_header(frame)
            if version not in VERSIONS or length < _NO_STRING:
                return None
            position = _HEADER_BYTES + (length if length > 0 else 0)
            found = (_find_flexible if version >= _FLEXIBLE_SINCE else _find)(frame, position)
            if found is None:
                return None
            acks, timeout_ms, topic, index, batch = found
            if batch[_ATTRIBUTES_AT] & _TRANSACTIONAL_OR_CONTROL:
                return None
            if (acks != 1 and acks != -1) or topic in INTERNAL_TOPICS:
                return None
            partition = self._partition(topic, index)
        except (KafkaError, ProtocolError, StructError, IndexError, ValueError):
            return None
        try:
            info = partition.append(batch, self._now_ms())
        except KafkaStorageError as error:
            return _refused(topic, index, error, version, correlation_id)
        except (KafkaError, ProtocolError):
            return None
        if partition.is_committed(info):
            return self.reply(topic, index, info, version, correlation_id)
        return _Acknowledgement(self, partition, info, timeout_ms, version, correlation_id)

    def reply(self, topic: str, index: int, info: AppendInfo, version: int, correlation_id: int) -> Frame:
        template = self._templates.get((topic, version))
        if template is None:
            template = self._add_template(topic, version)
        layout, size, head, tail = template
        base_offset, _, log_append_time, log_start_offset, _ = info
        reply = layout.pack(size, correlation_id, head, index, 0, base_offset, log_append_time, log_start_offset, tail)
        return reply, ()

    def _add_template(self, topic: str, version: int) -> Template:
        """The answer as the encoder makes it, cut where the numbers stand."""
        whole = bytes(encode_response(_response(topic, *_MARKS), version, 0)[0])
        head, tail = whole[_START_OF_REPLY:].split(_FIELDS.pack(*_MARKS))
        layout = Struct(f">ii{len(head)}sihqqq{len(tail)}s")
        if len(self._templates) >= _TEMPLATES_MAX:
            self._templates.clear()
        template = self._templates[topic, version] = (layout, len(whole) - SIZE_BYTES, head, tail)
        return template


class _Acknowledgement(Promise[Reply]):
    """The reply to an append that is not committed yet. One object, no closures: these take as long as the append."""

    __slots__ = ("_correlation_id", "_info", "_partition", "_quick", "_timer", "_version")

    def __init__(
        self,
        quick: QuickProduce,
        partition: Partition,
        info: AppendInfo,
        timeout_ms: int,
        version: int,
        correlation_id: int,
    ) -> None:
        super().__init__()
        self._quick = quick
        self._partition = partition
        self._info = info
        self._version = version
        self._correlation_id = correlation_id
        self._timer = quick.clock.call_later(timeout_ms, self._on_timeout)
        partition.when_committed(info, self._on_committed)

    def _on_committed(self, error: KafkaError | None) -> None:
        if self.done:
            return  # it was too late
        self._timer.cancel()
        topic, index = self._partition.topic_partition
        if error is None:
            self.resolve(self._quick.reply(topic, index, self._info, self._version, self._correlation_id))
        else:
            self.resolve(_refused(topic, index, error, self._version, self._correlation_id))

    def _on_timeout(self) -> None:
        self._on_committed(too_late_error())


def _find(frame: memoryview, position: int) -> Found | None:
    transactional_id, acks, timeout_ms, topics, length = _unpack_start(frame, position)
    position += _START_BYTES
    end = position + length
    partitions, index, size = _unpack_partition(frame, end)
    start = end + _PARTITION_BYTES
    if transactional_id != _NO_STRING or topics != 1 or length < 0 or partitions != 1 or start + size != len(frame):
        return None
    return acks, timeout_ms, str(frame[position:end], "utf-8"), index, frame[start:]


def _find_flexible(frame: memoryview, position: int) -> Found | None:
    tags, transactional_id, acks, timeout_ms, topics, length = _FLEXIBLE_START.unpack_from(frame, position)
    if tags or transactional_id or topics != _FLEXIBLE_ONE or length > _ONE_BYTE_MAX:
        return None
    position += _FLEXIBLE_START.size
    end = position + length - 1
    partitions, index = _FLEXIBLE_PARTITION.unpack_from(frame, end)
    size, start = read_uvarint(frame, end + _FLEXIBLE_PARTITION.size)
    records_end = start + size - 1
    if partitions != _FLEXIBLE_ONE or frame[records_end:] != _NO_TAGS:
        return None
    return acks, timeout_ms, str(frame[position:end], "utf-8"), index, frame[start:records_end]


def _refused(topic: str, index: int, error: KafkaError, version: int, correlation_id: int) -> Frame:
    response = _response(topic, index, 0, -1, -1, -1)
    fail(response.responses[0].partition_responses[0], error)
    return encode_response(response, version, correlation_id)


def _response(
    topic: str, index: int, error_code: int, base_offset: int, log_append_time: int, log_start_offset: int
) -> ProduceResponse:
    partition = PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time,
        log_start_offset=log_start_offset,
    )
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[partition])])
