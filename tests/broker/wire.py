"""A client that says exactly what a test tells it to say: raw frames through our own codec, one socket, no retries."""

import socket
import sys
from collections.abc import Iterable, Sequence
from struct import Struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.frame import decode_response, encode_request
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.protocol.records import NewRecord, Record, iter_records
from barnabas.protocol.types import ZERO_UUID, Uuid

TIMEOUT_S = 20
_SIZE = Struct(">i")


class CutOff(Exception):
    """The broker closed the connection."""


class RawClient:
    def __init__(self, port: int, *, client_id: str | None = "test", timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_id = 0
        self._expected: list[tuple[int, type, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # ---- requests and responses

    def call(self, request: Any, version: int | None = None) -> Any:
        self.send(request, version)
        return self.receive()

    def send(self, request: Any, version: int | None = None) -> None:
        self.socket.sendall(self.frame(request, version))

    def frame(self, request: Any, version: int | None = None) -> bytearray:
        """A frame whose response `receive` will expect next."""
        version = request.__versions__[-1] if version is None else version
        self._correlation_id += 1
        self._expected.append((self._correlation_id, response_of(type(request)), version))
        return encode_request(request, version, self._correlation_id, self.client_id)

    def receive(self) -> Any:
        correlation_id, cls, version = self._expected.pop(0)
        answered, response = decode_response(cls, version, memoryview(self.receive_frame()))
        assert answered == correlation_id, "an answer out of order"
        return response

    def receive_frame(self) -> bytes:
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                received = self.socket.recv(size - len(data))
            except ConnectionError:
                raise CutOff from None
            if not received:
                raise CutOff
            data += received
        return bytes(data)

    def is_cut_off(self) -> bool:
        """Waits for the broker to close the connection; false if it says something instead."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True

    # ---- the usual ones

    def produce(
        self,
        topic: str | Uuid,
        batch: bytes | bytearray | None,
        *,
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 10_000,
        version: int | None = None,
    ) -> PartitionProduceResponse:
        request = produce_request(topic, {partition: batch}, acks=acks, timeout_ms=timeout_ms)
        response = self.call(request, _version(topic, version, 12, 13)).responses[0].partition_responses[0]
        assert isinstance(response, PartitionProduceResponse)
        return response

    def fetch(
        self, topic: str | Uuid, offset: int = 0, *, partition: int = 0, version: int | None = None, **options: Any
    ) -> PartitionData:
        data = self.call(fetch_request(topic, {partition: offset}, **options), _version(topic, version, 12, 18))
        assert isinstance(data, FetchResponse)
        assert data.error_code == 0, ErrorCode(data.error_code)
        return data.responses[0].partitions[0]

    def list_offset(
        self, topic: str, timestamp: int, *, partition: int = 0, version: int | None = None, leader_epoch: int = -1
    ) -> Any:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        return self.call(request, version).topics[0].partitions[0]

    def topic_id(self, topic: str) -> Uuid:
        asked = [MetadataRequestTopic(name=topic)]
        described = self.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics[0]
        assert described.error_code == 0, ErrorCode(described.error_code)
        assert described.topic_id != ZERO_UUID
        topic_id: Uuid = described.topic_id
        return topic_id


def _version(topic: str | Uuid, version: int | None, by_name: int, by_id: int) -> int:
    return version if version is not None else by_name if isinstance(topic, str) else by_id


def response_of(request: type) -> type:
    response: type = getattr(sys.modules[request.__module__], request.__name__.replace("Request", "Response"))
    return response


def produce_request(
    topic: str | Uuid, batches: dict[int, bytes | bytearray | None], *, acks: int = -1, timeout_ms: int = 10_000
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    topic_data = (
        TopicProduceData(name=topic, partition_data=data)
        if isinstance(topic, str)
        else TopicProduceData(topic_id=topic, partition_data=data)
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic_data])


def fetch_request(
    topic: str | Uuid,
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **options: Any,
) -> FetchRequest:
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, offset in offsets.items()
    ]
    wanted = (
        FetchTopic(topic=topic, partitions=partitions)
        if isinstance(topic, str)
        else FetchTopic(topic_id=topic, partitions=partitions)
    )
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[wanted], **options)


class Sent(NamedTuple):
    """What a producer says of itself in a batch."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


NOBODY = Sent()


def batch_of(
    values: Iterable[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    compression: int = CompressionType.NONE,
    timestamps: Sequence[int] | None = None,
    sent: Sent = NOBODY,
    **options: Any,
) -> bytearray:
    """A batch as a client builds it. Without timestamps it is of now, as far as a test can tell."""
    values = list(values)
    timestamps = timestamps if timestamps is not None else [now_ms()] * len(values)
    keys = keys if keys is not None else [None] * len(values)
    records = [NewRecord(key, value, (), timestamp) for key, value, timestamp in zip(keys, values, timestamps)]
    return build_batch(records, compression=CompressionType(compression), **sent._asdict(), **options)


def good(count: int = 3, **options: Any) -> bytearray:
    """A batch that nobody has anything against."""
    return batch_of([b"value-%d" % index for index in range(count)], **options)


def now_ms() -> int:
    from time import time

    return int(time() * 1_000)


def records_of(data: PartitionData) -> list[Record]:
    """Every record of the batches that a fetch brought, also those before the offset that was asked for."""
    buffer = memoryview(bytes(data.records or b""))  # type: ignore[arg-type]
    return [
        record
        for position, header in iter_batches(buffer)
        for record in iter_records(buffer[position : position + header.size_bytes], max_decompressed_bytes=1 << 26)
    ]


def values_of(data: PartitionData) -> list[bytes | None]:
    return [record.value for record in records_of(data)]
