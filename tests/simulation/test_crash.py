"""Ten thousand crashes: whatever was promised before them must be true after.

One run is one seed: a broker's logs on a simulated disk, a few small operations, a crash in the middle or in between,
a new start, the invariants, and on. A failing run says its seed; `SIM_SEED=<seed>` runs that one alone.
"""

import os
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from barnabas.base.promise import Promise
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import NO_TIMESTAMP, header_at, iter_batches
from barnabas.protocol.errors import InvalidTxnState, KafkaStorageError, OutOfOrderSequence
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.protocol.types import TopicPartition
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerConfig, LogManagerLimits
from barnabas.storage.segments.batches import header_in, iter_headers
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from tests.simulation.files import Crash
from tests.simulation.seeds import run_seeds
from tests.simulation.world import World
from tests.storage.logs import verified
from tests.storage.transactions.committed import Transactions, Written, check_committed

CRASHES = int(os.environ.get("CRASHES", "10000"))
CRASHES_PER_RUN = 20
SHARDS = 10
IDEMPOTENT = (1, 2)
TRANSACTIONAL = (3, 4, 5)
TOPIC_ID = bytes(range(16))
BROKER = LogManagerConfig(
    log_flush_offset_checkpoint_interval_ms=400,
    log_retention_check_interval_ms=500,
    producer_id_expiration_ms=1 << 50,
    producer_id_expiration_check_interval_ms=3_000,
)


class Producer(NamedTuple):
    """Who sends a batch, and its place among those it sent before."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class Batch:
    """What was appended: the bytes as the log patched them, and who sent it."""

    def __init__(self, base_offset: int, records: list[NewRecord], producer: Producer) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset + max(len(records), 1)
        self.data = b""
        self.records = records
        """None of a marker."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer
        self.ends: ControlType | None = None

    @property
    def written(self) -> Written:
        producer_id = self.producer_id if self.producer_id in TRANSACTIONAL else -1
        return Written(self.base_offset, self.next_offset, producer_id, self.ends)


class Model:
    """What must be true of one partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.in_flight: Batch | None = None
        self.durable = 0
        """Everything below was acknowledged as synced, or survived a power cut."""
        self.deleted = 0
        """Records below were deleted; they may come back, they may not."""

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    @property
    def history(self) -> list[Written]:
        return [batch.written for batch in self.batches]

    def next_of(self, producer_id: int) -> Producer:
        """Returns what the producer is to send next, in the epoch that it has."""
        last = self.last_of(producer_id)
        if last is None:
            return Producer(producer_id, 0, 0)
        if last.ends is None:
            return Producer(producer_id, last.producer_epoch, last.base_sequence + len(last.records))
        before = [batch for batch in self.batches if batch.producer_id == producer_id and batch.ends is None]
        if not before or before[-1].producer_epoch != last.producer_epoch:
            return Producer(producer_id, last.producer_epoch, 0)
        sequence = before[-1].base_sequence + len(before[-1].records)
        return Producer(producer_id, last.producer_epoch, sequence)

    def last_of(self, producer_id: int) -> Batch | None:
        return next((batch for batch in reversed(self.batches) if batch.producer_id == producer_id), None)


class Run:
    """The logs of a broker, as often as it is started on the same disk."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        world = World(seed)
        self.scheduler = world.scheduler
        self.machine = world.machine("broker")
        self.files = self.machine.files
        self.models = {TopicPartition("t", number): Model() for number in range(self.random.randint(1, 3))}
        self.config = LogConfig(
            internal_segment_bytes=self.random.choice((300, 700, 2_000)),
            index_interval_bytes=self.random.choice((0, 100, 400)),
            segment_ms=self.random.choice((2_000, 1 << 40)),
            retention_ms=self.random.choice((-1, 3_000, 20_000)),
            retention_bytes=self.random.choice((-1, 0, 1_500)),
            flush_messages=self.random.choice((1, 3, 2**63 - 1)),
            flush_ms=self.random.choice((300, 2**63 - 1)),
            file_delete_delay_ms=self.random.choice((0, 700)),
            message_timestamp_type=self.random.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        )
        self.epoch = 0

    @property
    def now_ms(self) -> int:
        return self.machine.wall_clock.now_ms()

    # ---- a life of the process

    def start(self) -> None:
        self.manager = LogManager(
            ["/data"],
            self.machine.start().environment,
            BROKER,
            limits=LogManagerLimits(
                open_files_max=3, initial_task_delay_ms=200, sync_together_min=self.random.choice((1, 100))
            ),
            config_of=lambda topic: self.config,
        )
        self.manager.open()
        self.manager.ensure_meta_properties("cluster", 1, lambda: TOPIC_ID)
        self.epoch += self.random.random() < 0.3
        for topic_partition in self.models:
            self.manager.create(topic_partition, TOPIC_ID, self.config)

    def live(self) -> None:
        """A few operations; the process may be gone in the middle of one."""
        if self.random.random() < 0.6:
            self.files.crash_after(self.random.randrange(60))
        operations = (
            self.append,
            self.append,
            self.append,
            self.end,
            self.flush,
            self.work,
            self.work,
            self.wait,
            self.prune,
        )
        for _ in range(self.random.randrange(25)):
            topic_partition = self.random.choice(list(self.models))
            try:
                self.random.choice(operations)(self.models[topic_partition], self.manager.get(topic_partition))
                self.scheduler.run_for(self.random.choice((0, 0.2)))
            finally:
                for name, model in self.models.items():
                    model.deleted = max(model.deleted, self.manager.get(name).log_start_offset)

    def append(self, model: Model, log: Log) -> None:
        producer_id = self.random.choice((-1, -1, *IDEMPOTENT, *TRANSACTIONAL))
        producer = Producer() if producer_id < 0 else model.next_of(producer_id)
        if producer_id in IDEMPOTENT and self.random.random() < 0.1:
            producer = Producer(producer_id, producer.producer_epoch + 1, 0)
        timestamp = self.random.choice((self.now_ms, self.now_ms, self.now_ms - 900, NO_TIMESTAMP))
        records = [
            NewRecord(b"k", self.random.randbytes(self.random.randrange(60)), (), timestamp)
            for _ in range(self.random.randint(1, 3))
        ]
        data = built(records, producer)
        guard = verified(log, data)
        if producer_id in TRANSACTIONAL:
            self.check_guard(model, log, data, guard)
        batch = Batch(log.log_end_offset, records, producer)
        self.write(model, log, batch, data, lambda view: log.append(view, self.epoch, self.now_ms, guard))

    def check_guard(self, model: Model, log: Log, data: bytearray, guard: VerificationGuard | None) -> None:
        """A transaction that is open needs no guard; the first batch of another one is refused without it."""
        producer_id = header_at(data).producer_id
        batches = Transactions(model.history).open.get(producer_id, [])
        assert guard is not None or batches, "there is no transaction to go on with"
        if guard is not None:
            assert all(batch.base_offset < model.deleted for batch in batches), "the transaction is forgotten"
            with pytest.raises(InvalidTxnState):
                log.append(memoryview(data), leader_epoch=self.epoch, now_ms=self.now_ms)

    def end(self, model: Model, log: Log) -> None:
        """Ends a transaction, by the rules of today in a new epoch; sometimes one that has not begun."""
        producer = model.next_of(self.random.choice(TRANSACTIONAL))
        is_v2 = self.random.random() < 0.5
        epoch = producer.producer_epoch + is_v2
        is_committed = self.random.random() < 0.5
        marker = TransactionMarker(producer.producer_id, epoch, self.epoch, is_committed, 2 if is_v2 else 1)
        log.transactions.check_marker(marker)
        batch = Batch(log.log_end_offset, [], producer._replace(producer_epoch=epoch, base_sequence=-1))
        batch.ends = ControlType.COMMIT if is_committed else ControlType.ABORT
        data = bytearray(marker.to_batch(self.now_ms))
        ended = log.transactions
        self.write(model, log, batch, data, lambda view: ended.append_marker(marker, view, self.epoch, self.now_ms))

    def write(
        self, model: Model, log: Log, batch: Batch, data: bytearray, append: Callable[[memoryview], AppendInfo]
    ) -> None:
        model.in_flight = batch
        self.fill_disk()
        try:
            info = append(memoryview(data))
        except KafkaStorageError:
            assert not log.is_offline
            model.in_flight = None
            return
        except OutOfOrderSequence:
            model.in_flight = None
            sent = [each for each in model.batches if each.producer_id == batch.producer_id and each.ends is None]
            assert sent[-1].base_offset < model.deleted, "the log forgets what it holds"
            return  # with the batches gone, a marker in their epoch is all that is known of it
        finally:
            self.files.capacity_bytes = 1 << 40
            batch.data = bytes(data)
        log.advance_high_watermark(log.log_end_offset)
        assert not info.duplicate
        assert info.base_offset == model.end, "offsets skip or repeat"
        assert info.last_offset == batch.next_offset - 1
        model.batches.append(batch)
        model.in_flight = None
        check_committed(log, model.history, self.random)

    def fill_disk(self) -> None:
        if self.random.random() < 0.03:
            self.files.capacity_bytes = self.files.used_bytes() + self.random.randrange(150)

    def flush(self, model: Model, log: Log) -> None:
        end = log.log_end_offset

        def flushed(done: Promise[None]) -> None:
            assert done.error is None, done.error
            model.durable = max(model.durable, end)

        log.flush().when_done(flushed)

    def work(self, model: Model, log: Log) -> None:
        self.scheduler.run_for(self.random.choice((1, 2, 4)))

    def wait(self, model: Model, log: Log) -> None:
        self.scheduler.run_for(self.random.choice((1, 100, 1_000)))

    def prune(self, model: Model, log: Log) -> None:
        if self.random.random() < 0.3:
            log.delete_records(self.random.randint(log.log_start_offset, log.log_end_offset))

    def stop(self) -> None:
        """A clean stop, if it gets to its end."""
        self.manager.close()
        for model in self.models.values():
            model.durable = model.end

    # ---- after a crash

    def restart(self, *, power_cut: bool) -> None:
        self.start()
        for topic_partition, model in self.models.items():
            log = self.manager.get(topic_partition)
            survived(model, log, power_cut)
            indexes_fit(log)
            check_committed(log, model.history, self.random)
            duplicates_are_known(model, log, self.now_ms)


def built(records: list[NewRecord], producer: Producer) -> bytearray:
    return build_batch(records, transactional=producer.producer_id in TRANSACTIONAL, **producer._asdict())


def survived(model: Model, log: Log, power_cut: bool) -> None:
    """Nothing promised is lost, nothing else appears; then the model forgets what is gone."""
    if model.in_flight is not None:
        if log.log_end_offset == model.in_flight.next_offset:
            model.batches.append(model.in_flight)
        model.in_flight = None
    end = log.log_end_offset
    must_have = model.durable if power_cut else model.end
    assert must_have <= end <= model.end, f"the log ends at {end}, expected {must_have} to {model.end}"
    if log.log_start_offset > model.deleted:
        # A power cut took the name of the first segment, of which nothing was synced, and not that of the second.
        assert power_cut, "records vanished that nobody deleted"
        assert model.durable <= model.deleted, "records vanished that were synced"
        model.deleted = log.log_start_offset
    found = read_all(log)
    model.batches = [batch for batch in model.batches if batch.next_offset <= end]
    for batch in model.batches:
        if batch.next_offset > log.log_start_offset:
            assert found.pop(batch.base_offset, None) == batch.data, f"the batch at {batch.base_offset} is not the same"
    assert not found, f"batches nobody appended: {list(found)}"
    if end > model.end:
        assert end == log.log_start_offset, "the log was emptied and starts behind what was lost"
        model.batches.append(Batch(end - 1, [], Producer()))
    if power_cut:
        model.durable = end


def read_all(log: Log) -> dict[int, bytes]:
    found = {}
    offset = log.log_start_offset
    while (data := log.read(offset, 400, max_offset=log.log_end_offset)) is not None:
        view = data.read()
        assert len(view) == data.size
        for position, header in iter_batches(view):
            found[header.base_offset] = view[position : position + header.size_bytes]
            offset = header.next_offset
    return found


def indexes_fit(log: Log) -> None:
    for segment in log.segments:
        rows = [segment.offset_index.row(slot) for slot in range(len(segment.offset_index))]
        for relative_offset, position in rows:
            header = header_in(segment.file(), position)
            assert header is not None
            assert header.last_offset == segment.base_offset + relative_offset, "an index row names another batch"
        assert rows == sorted(set(rows)), "index rows do not ascend"
        times = [segment.time_index.row(slot) for slot in range(len(segment.time_index))]
        assert times == sorted(set(times)), "time index rows do not ascend"
        headers = [header for _, header in iter_headers(segment.file(), 0, segment.size)] if segment.size else []
        largest = max((header.max_timestamp for header in headers), default=NO_TIMESTAMP)
        assert segment.largest_indexed_timestamp() == largest, "retention would judge by another timestamp"


def duplicates_are_known(model: Model, log: Log, now_ms: int) -> None:
    for producer_id in (*IDEMPOTENT, *TRANSACTIONAL):
        last = model.last_of(producer_id)
        if last is not None and last.ends is None and last.base_offset >= model.deleted:
            producer = Producer(producer_id, last.producer_epoch, last.base_sequence)
            info = log.append(memoryview(built(last.records, producer)), leader_epoch=0, now_ms=now_ms)
            assert info.duplicate, f"a batch of producer {producer_id} was stored twice"
            assert info.base_offset == last.base_offset
            gap = built(last.records, producer._replace(base_sequence=last.base_sequence + 100))
            with pytest.raises(OutOfOrderSequence):
                log.append(memoryview(gap), leader_epoch=0, now_ms=now_ms)


def simulate(seed: int) -> int:
    run = Run(seed)
    crashes = 0
    power_cut = False
    while crashes < CRASHES_PER_RUN:
        try:
            if run.random.random() < 0.1:
                run.files.crash_after(run.random.randrange(12))
            run.restart(power_cut=power_cut)
            power_cut = False
            run.live()
            if run.random.random() < 0.2:
                run.stop()
        except Crash:
            pass
        crashes += 1
        if run.random.random() < 0.5:
            run.machine.kill()
        else:
            run.machine.cut_power()
            power_cut = True
    return crashes


@pytest.mark.parametrize("shard", range(SHARDS))
def test_what_was_promised_is_true_after_any_crash(shard: int) -> None:
    run_seeds(simulate, CRASHES // CRASHES_PER_RUN, shard=shard, shards=SHARDS)
