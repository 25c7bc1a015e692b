"""Logs to test with: on a simulated disk, with time and workers in the test's hands."""

from collections.abc import Sequence
from random import Random
from typing import TypedDict, TypeVar, Unpack

from barnabas.base.files import Files
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import HEADER_BYTES, BatchHeader, header_at, iter_batches
from barnabas.protocol.records import NewRecord
from barnabas.protocol.types import TopicPartition
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerConfig, LogManagerLimits
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from tests.fakes import FakeClock, FakeReport, InlineWorkers, QueuedWorkers, fake_environment
from tests.simulation.files import SimulatedFiles

TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000

T = TypeVar("T")


def present(value: T | None) -> T:
    """Returns what a log found; a test where it found nothing fails."""
    assert value is not None
    return value


class BatchFields(TypedDict, total=False):
    """The fields of a batch that a test may choose."""

    compression: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    log_append_time: int
    transactional: bool


def batch(
    *values: bytes | None, timestamp: int = NOW_MS, key: bytes | None = b"k", **fields: Unpack[BatchFields]
) -> bytearray:
    """As a client sends it."""
    return build_batch([NewRecord(key, value, (), timestamp) for value in values or (b"v",)], **fields)


def sized(size: int, timestamp: int = NOW_MS, **fields: Unpack[BatchFields]) -> bytearray:
    """A batch of exactly so many bytes."""
    data = batch(b"", timestamp=timestamp, **fields)
    value = size - len(data)
    while len(data) != size:
        data = batch(bytes(value), timestamp=timestamp, **fields)
        value += size - len(data)
    return data


def append(
    log: Log, data: bytearray | memoryview | None = None, *, leader_epoch: int = 0, now_ms: int = NOW_MS
) -> AppendInfo:
    data = memoryview(data if data is not None else batch())
    info = log.append(data, leader_epoch=leader_epoch, now_ms=now_ms, guard=verified(log, data))
    log.advance_high_watermark(log.log_end_offset)  # as a leader without followers does
    return info


def verified(log: Log, data: memoryview | bytearray) -> VerificationGuard | None:
    """Returns the guard of a batch that its transaction's coordinator knows about, if it needs one."""
    if len(data) < HEADER_BYTES:
        return None
    header = header_at(data)
    if not header.is_transactional or header.is_control:
        return None
    epoch, sequence = header.producer_epoch, header.base_sequence
    return log.transactions.begin_verification(header.producer_id, epoch, sequence, is_v2=False)


def end_transaction(log: Log, marker: TransactionMarker, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> AppendInfo:
    """Writes a marker as a leader does; nothing says that it is committed."""
    log.transactions.check_marker(marker)
    return log.transactions.append_marker(marker, marker.to_batch(now_ms), leader_epoch, now_ms)


class Broker:
    """The storage of a broker, as often as it is started on the same disk."""

    def __init__(
        self,
        files: Files | None = None,
        log_dirs: Sequence[str] = ("/data",),
        *,
        queued: bool = False,
        now_ms: int = NOW_MS,
        **settings: int,
    ) -> None:
        self.files = files or SimulatedFiles(Random(1))
        self._log_dirs = list(log_dirs)
        self._queued = queued
        limits = {name: settings.pop(name) for name in LogManagerLimits._fields if name in settings}
        self._limits = LogManagerLimits(**limits)
        self._settings = LogManagerConfig(**settings)
        self.config = LogConfig()
        self.now_ms = now_ms
        self.start()

    def start(self) -> None:
        self.clock = FakeClock(self.now_ms)
        self.workers = QueuedWorkers() if self._queued else InlineWorkers()
        self.report = FakeReport()
        self.environment = fake_environment(self.files, clock=self.clock, workers=self.workers, report=self.report)
        self.manager = LogManager(
            self._log_dirs,
            self.environment,
            self._settings,
            limits=self._limits,
            config_of=lambda topic: self.config,
        )
        self.manager.open()
        self.manager.ensure_meta_properties("cluster", 1, lambda: TOPIC_ID)

    @property
    def queue(self) -> QueuedWorkers:
        """The workers of a broker that was made with `queued`."""
        assert isinstance(self.workers, QueuedWorkers)
        return self.workers

    @property
    def disk(self) -> SimulatedFiles:
        assert isinstance(self.files, SimulatedFiles)
        return self.files

    def log(self, topic_partition: TopicPartition = ORDERS, /, **config: object) -> Log:
        if config:
            self.config = LogConfig(**config)
        return self.manager.create(topic_partition, TOPIC_ID, self.config)

    def settle(self) -> None:
        """Whatever was put off is done."""
        self.clock.turn()
        while isinstance(self.workers, QueuedWorkers) and self.workers.jobs:
            self.workers.do()
            self.clock.turn()

    def restart(self) -> None:
        self.manager.close()
        self.start()

    def kill(self) -> None:
        self.disk.kill()
        self.start()

    def cut_power(self) -> None:
        self.disk.cut_power()
        self.start()


def headers_of(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Of everything that can be read from the offset on."""
    offset = log.log_start_offset if offset is None else offset
    headers: list[BatchHeader] = []
    while (found := log.read(offset, max_bytes, max_offset=log.log_end_offset)) is not None:
        batches = [header for _, header in iter_batches(found.read())]
        assert sum(header.size_bytes for header in batches) == found.size, "a slice holds whole batches"
        headers += batches
        offset = batches[-1].next_offset
    return headers


def offsets_of(log: Log) -> list[int]:
    return [header.base_offset for header in headers_of(log)]
