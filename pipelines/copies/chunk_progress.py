"""Reports chunks as other jobs report Spark's micro-batches."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barnabas.pipelines.shared.kafka_rows import TopicPartition
from barnabas.pipelines.shared.progress import Counts, Progress

TICK_S = 1.0


class ChunkProgress(Progress):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._number = 0
        self._chunk_began = 0.0

    @contextmanager
    def chunk_runs(self) -> Iterator[None]:
        """Shows that a long chunk is still running."""
        self._chunk_began = time.monotonic()
        done = threading.Event()

        def tick() -> None:
            while not done.wait(TICK_S):
                self.batch_runs(self._number, time.monotonic() - self._chunk_began)

        ticking = threading.Thread(target=tick, name="progress", daemon=True)
        ticking.start()
        try:
            yield
        finally:
            done.set()
            ticking.join()

    def chunk_done(
        self, records: int, next_offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Reports a chunk; the next one begins at `next_offsets`, the last one will end at `ends`."""
        self.batch_done(self._number, Counts(records, records))
        took_ms = int((time.monotonic() - self._chunk_began) * 1000)
        source = {"endOffset": _by_topic(next_offsets), "latestOffset": _by_topic(ends)}
        self.query_progressed(
            {"batchId": self._number, "durationMs": {"triggerExecution": took_ms}, "sources": [source]}
        )
        self._number += 1


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return found
