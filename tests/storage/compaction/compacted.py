"""A compacted log to test with, and the cleaner on it, step by step."""

from typing import Unpack

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import BatchHeader, iter_batches
from barnabas.protocol.records import NewRecord, Record, iter_records
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log import Log
from tests.storage.logs import ORDERS, BatchFields, Broker, append

HOUR_MS = 3_600_000


class CompactedLog:
    """One log that is cleaned as soon as there is anything dirty in a closed segment."""

    def __init__(self, broker: Broker | None = None, partition: TopicPartition = ORDERS, **config: object) -> None:
        self.broker = broker or Broker(log_cleaner_backoff_ms=0)
        self.partition = partition
        settings = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0, "index_interval_bytes": 100}
        self.log: Log = self.broker.log(partition, **settings | config)

    def append(
        self,
        *records: tuple[bytes | None, bytes | None],
        timestamp: int | None = None,
        **fields: Unpack[BatchFields],
    ) -> int:
        """One batch; its base offset."""
        timestamp = self.broker.clock.now_ms() if timestamp is None else timestamp
        batch = build_batch([NewRecord(key, value, (), timestamp) for key, value in records], **fields)
        return append(self.log, batch, now_ms=self.broker.clock.now_ms()).base_offset

    def roll(self) -> None:
        self.log.roll(self.broker.clock.now_ms())
        self.broker.settle()

    def clean(self) -> None:
        """What is closed, if it is worth it."""
        self.broker.settle()
        self.broker.clock.advance(0)
        self.broker.settle()
        self.broker.clock.advance(0)
        self.broker.settle()

    def batches(self) -> list[tuple[BatchHeader, list[Record]]]:
        found: list[tuple[BatchHeader, list[Record]]] = []
        offset = self.log.log_start_offset
        while (data := self.log.read(offset, 1 << 20, max_offset=self.log.log_end_offset)) is not None:
            view = data.read()
            for position, header in iter_batches(view):
                batch = view[position : position + header.size_bytes]
                found.append((header, list(iter_records(batch, max_decompressed_bytes=1 << 20))))
                offset = header.next_offset
        return found

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(record.offset, record.key, record.value) for _, records in self.batches() for record in records]
