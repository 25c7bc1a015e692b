"""Fetch as consumers send it, and the records out of the answer."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.batch_header import crc_of, iter_batches
from barnabas.protocol.errors import CorruptMessage, ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.records import iter_records
from barnabas.protocol.types import TopicPartition, Uuid
from tests.simulation.clients.client import REQUEST_TIMEOUT_MS
from tests.simulation.clients.script import Script

MAX_WAIT_MS = 500
VERSION = 12


class Fetched(NamedTuple):
    partition: TopicPartition
    code: ErrorCode
    records: list[tuple[int, bytes]]
    """(offset, value)"""
    topic_id: Uuid


def fetch(
    link: PeerClient, positions: Mapping[TopicPartition, int], *, min_bytes: int = 1, max_wait_ms: int = MAX_WAIT_MS
) -> Script[list[Fetched]]:
    """Returns what is to be said of some partitions: of those that have nothing new there is nothing to say. Raises
    CorruptMessage if a batch is not what its checksum says."""
    topics: dict[str, list[FetchPartition]] = {}
    for partition, offset in positions.items():
        topics.setdefault(partition.topic, []).append(
            FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
    response = yield link.send(request, FetchResponse, max_version=VERSION, timeout_ms=max_wait_ms + REQUEST_TIMEOUT_MS)
    return list(_fetched(response, positions))


def _fetched(response: FetchResponse, positions: Mapping[TopicPartition, int]) -> Iterator[Fetched]:
    for topic in response.responses:
        for data in topic.partitions:
            if not data.records and not data.error_code:
                continue
            partition = TopicPartition(topic.topic, data.partition_index)
            records: list[tuple[int, bytes]] = []
            assert isinstance(data.records, memoryview | None)
            view = data.records or memoryview(b"")
            for position, header in iter_batches(view):
                batch = view[position : position + header.size_bytes]
                if crc_of(batch) != header.crc:
                    raise CorruptMessage(f"the batch at {header.base_offset} of {partition} is not what was written")
                for record in iter_records(batch, max_decompressed_bytes=1 << 20):
                    if record.offset >= positions[partition]:  # a batch may begin before what was asked for
                        records.append((record.offset, record.value or b""))
            yield Fetched(partition, ErrorCode(data.error_code), records, topic.topic_id)
