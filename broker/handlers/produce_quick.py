"""Produce of one batch to one partition, without the general machinery: a client that sends record by record sends
nothing else.

The general way decodes the request into objects and encodes the answer out of objects, which costs more than the append
between them. Here the few fields are read in place, and the numbers of the answer are packed into a template, which the
encoder creates once. Nothing is decided here: a request that is unusual in any way, or whose batch the log refuses, is
left to the general way, which starts from the beginning: a refused append has changed nothing. Only a disk error is
answered at once: the general way would use the disk a second time.
"""

from struct import Struct
from struct import error as StructError
from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.handlers.current_leader import name_leaders
from barnabas.broker.handlers.produce_acknowledgement import fail
from barnabas.broker.network.reply_queue import Frame, Reply
from barnabas.broker.network.session import Session
from barnabas.broker.node import Node
from barnabas.broker.replicas.leader import ACKS_ALL, LeaderPartition
from barnabas.protocol.batch_header import ATTRIBUTES_LOW_BYTE_AT, CONTROL_FLAG, TRANSACTIONAL_FLAG
from barnabas.protocol.errors import KafkaError, KafkaStorageError, ProtocolError
from barnabas.protocol.frame import SIZE_BYTES, encode_response
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.protocol.primitives import read_uvarint
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import INTERNAL_TOPICS
from barnabas.storage.append_info import AppendInfo

VERSIONS = range(7, 14)
"""The versions that know every codec."""
_FLEXIBLE_SINCE = 9
_TOPIC_IDS_SINCE = 13

_HEADER = Struct(">hhih")  # api key, version, correlation id, length of the client id
_START = Struct(">hhiih")  # length of the transactional id, acks, timeout, count of topics, length of a name
_PARTITION = Struct(">iii")  # count of partitions, index, length of the records
_FLEXIBLE_START = Struct(">BBhiBB")  # the same after the tags of the header
_TOPIC_ID_START = Struct(">BBhiB16sBi")  # with a topic id in the place of the name, and what follows it
_FLEXIBLE_PARTITION = Struct(">Bi")  # count of partitions, index; the length of the records has a length of its own
_unpack_header, _HEADER_BYTES = _HEADER.unpack_from, _HEADER.size
_unpack_start, _START_BYTES = _START.unpack_from, _START.size
_unpack_partition, _PARTITION_BYTES = _PARTITION.unpack_from, _PARTITION.size
_unpack_by_id, _TOPIC_ID_START_BYTES = _TOPIC_ID_START.unpack_from, _TOPIC_ID_START.size
_NO_STRING = -1
_FLEXIBLE_ONE = 2  # as compact arrays count
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_ONE_BYTE_MAX = 0x7F
_TRANSACTIONAL_OR_CONTROL = TRANSACTIONAL_FLAG | CONTROL_FLAG
_TEMPLATES_MAX = 1_000

_FIELDS = Struct(">ihqqq")  # index, error code, base offset, log append time, log start offset
_MARKS = (0x1112_1314, 0x2122, 0x3132_3334_3536_3738, 0x4142_4344_4546_4748, 0x5152_5354_5556_5758)
_START_OF_REPLY = 2 * SIZE_BYTES  # size, correlation id

Topic = str | Uuid
"""The name of a topic or, since version 13, its id."""
Found = tuple[int, int, Any, int, memoryview]
"""Acks, timeout, topic, index, batch."""
Asked = tuple[Session, int, int]
"""Who asked, in which version, and under which correlation id."""
Template = tuple[Struct, int, bytes, bytes]
"""The layout of a reply, its size, and the bytes before and after its numbers."""


class QuickProduce:
    __slots__ = ("_now_ms", "_partition", "_templates", "clock", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._partition = node.replicas.partition
        self.clock = node.clock
        self._now_ms = node.clock.now_ms
        self._templates: dict[tuple[Topic, int], Template] = {}

    def __call__(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        """Answers a frame that begins as a Produce does; returns None if the frame must go the general way."""
        try:
            _, version, correlation_id, length = _unpack_header(frame)
            if version not in VERSIONS or length < _NO_STRING:
                return None
            position = _HEADER_BYTES + (length if length > 0 else 0)
            found = _FINDERS[version](frame, position)
            if found is None:
                return None
            acks, timeout_ms, topic, index, batch = found
            if batch[ATTRIBUTES_LOW_BYTE_AT] & _TRANSACTIONAL_OR_CONTROL:
                return None
            name = topic if version < _TOPIC_IDS_SINCE else self.node.image.topics_by_id[topic].name
            if (acks != 1 and acks != -1) or name in INTERNAL_TOPICS:
                return None
            partition = self._partition(name, index)
            if acks == ACKS_ALL and partition.is_under_min_isr:
                return None
        except (KafkaError, ProtocolError, StructError, LookupError, ValueError):
            return None
        try:
            info = partition.append(batch, self._now_ms())
        except KafkaStorageError as error:
            return encode_response(_refusal(topic, index, error), version, correlation_id)
        except (KafkaError, ProtocolError):
            return None
        if partition.is_acknowledged(info, acks):
            return self.reply(topic, index, info, version, correlation_id)
        acknowledgement = _Acknowledgement(self, partition, info, (session, version, correlation_id))
        partition.when_acknowledged(info, acks, acknowledgement, timeout_ms)
        return acknowledgement

    def reply(self, topic: Topic, index: int, info: AppendInfo, version: int, correlation_id: int) -> Frame:
        template = self._templates.get((topic, version))
        if template is None:
            template = self._add_template(topic, version)
        layout, size, head, tail = template
        base_offset, _, log_append_time, log_start_offset, _ = info
        reply = layout.pack(size, correlation_id, head, index, 0, base_offset, log_append_time, log_start_offset, tail)
        return reply, ()

    def _add_template(self, topic: Topic, version: int) -> Template:
        """Creates a template: the answer of the encoder, cut where the numbers stand."""
        whole = bytes(encode_response(_response(topic, *_MARKS), version, 0)[0])
        head, tail = whole[_START_OF_REPLY:].split(_FIELDS.pack(*_MARKS))
        layout = Struct(f">ii{len(head)}sihqqq{len(tail)}s")
        if len(self._templates) >= _TEMPLATES_MAX:
            self._templates.clear()
        template = self._templates[topic, version] = (layout, len(whole) - SIZE_BYTES, head, tail)
        return template


class _Acknowledgement(Promise[Reply]):
    """The reply to an append that is not acknowledged at once. It has no closures: they cost as much as an append."""

    __slots__ = ("_asked", "_info", "_partition", "_quick")

    def __init__(
        self,
        quick: QuickProduce,
        partition: LeaderPartition,
        info: AppendInfo,
        asked: Asked,
    ) -> None:
        super().__init__()
        self._quick = quick
        self._partition = partition
        self._info = info
        self._asked = asked

    def on_append_done(self, error: KafkaError | None) -> None:
        if error is None:
            _, version, correlation_id = self._asked
            index = self._partition.topic_partition.partition
            self.resolve(self._quick.reply(self._topic, index, self._info, version, correlation_id))
        else:
            self._refuse(error)

    def _refuse(self, error: KafkaError) -> None:
        session, version, correlation_id = self._asked
        response = _refusal(self._topic, self._partition.topic_partition.partition, error)
        name_leaders(self._quick.node, session, version, response)
        self.resolve(encode_response(response, version, correlation_id))

    @property
    def _topic(self) -> Topic:
        """Returns the topic as the response names it: by its id since version 13."""
        partition = self._partition
        return partition.topic_partition.topic if self._asked[1] < _TOPIC_IDS_SINCE else partition.topic_id


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


def _find_by_id(frame: memoryview, position: int) -> Found | None:
    tags, transactional_id, acks, timeout_ms, topics, topic_id, partitions, index = _unpack_by_id(frame, position)
    if tags or transactional_id or topics != _FLEXIBLE_ONE or partitions != _FLEXIBLE_ONE:
        return None
    size, start = read_uvarint(frame, position + _TOPIC_ID_START_BYTES)
    records_end = start + size - 1
    if frame[records_end:] != _NO_TAGS:
        return None
    return acks, timeout_ms, topic_id, index, frame[start:records_end]


_FINDERS = {
    version: _find_by_id if version >= _TOPIC_IDS_SINCE else _find_flexible if version >= _FLEXIBLE_SINCE else _find
    for version in VERSIONS
}


def _refusal(topic: Topic, index: int, error: KafkaError) -> ProduceResponse:
    response = _response(topic, index, 0, -1, -1, -1)
    fail(response.responses[0].partition_responses[0], error)
    return response


def _response(
    topic: Topic, index: int, error_code: int, base_offset: int, log_append_time: int, log_start_offset: int
) -> ProduceResponse:
    partition = PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time,
        log_start_offset=log_start_offset,
    )
    if isinstance(topic, str):
        answered = TopicProduceResponse(name=topic, partition_responses=[partition])
    else:
        answered = TopicProduceResponse(topic_id=topic, partition_responses=[partition])
    return ProduceResponse(responses=[answered])
