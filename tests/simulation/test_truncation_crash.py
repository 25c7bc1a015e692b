"""A follower's log that is appended to, cut back and crashed: what is read afterwards is always one history.

One run is one seed. The leader's log is a list of batches; the follower appends what comes next in it and is cut back
when another leader has another history. Whatever survives a crash must be a prefix of what the follower had: nothing
that was cut off may come back, nothing that was promised may be missing. A cut that was interrupted may be undone by a
power cut before anything was synced, but then as a whole: the old history, or the new one, and never some of each.
"""

import os
from random import Random
from typing import Any, NamedTuple

import pytest

from barnabas.base.files import FileSlice
from barnabas.base.promise import Promise
from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.batch_header import header_at
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerConfig, LogManagerLimits
from tests.simulation.files import Crash
from tests.simulation.seeds import run_seeds
from tests.simulation.test_crash import indexes_fit, read_all
from tests.simulation.world import World
from tests.storage.transactions.committed import Transactions, Written, check_committed

CRASHES = int(os.environ.get("CRASHES", "1500"))
CRASHES_PER_RUN = 15
SHARDS = 4
TOPIC_ID = bytes(range(16))
LOG = TopicPartition("t", 0)
IDEMPOTENT = (1, 2)
TRANSACTIONAL = (3, 4)
BROKER = LogManagerConfig(
    log_flush_offset_checkpoint_interval_ms=400,
    producer_id_expiration_ms=1 << 50,
    producer_id_expiration_check_interval_ms=3_000,
)


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    data: bytes
    leader_epoch: int
    producer_id: int
    last_sequence: int
    """-1 for a marker, or without a producer."""
    ends: ControlType | None


class Model:
    """What the follower should have, and what it may have after a crash in the middle of something."""

    def __init__(self) -> None:
        self.history: list[Batch] = []
        self.end = 0
        self.start = 0
        self.durable = 0
        """Everything below was synced, and was not cut off."""
        self.written = 0
        """Everything below was written, and nobody has begun to cut it off."""
        self.in_flight: list[Batch] = []
        """What was being appended."""
        self.before_cut: list[Batch] = []
        """The history before a cut that was interrupted, until the new one is durable."""
        self.is_emptying = False

    def last_epoch(self) -> int:
        return self.history[-1].leader_epoch if self.history else 0

    def transactions(self) -> list[Written]:
        return [
            Written(batch.base_offset, batch.next_offset, producer_id, batch.ends)
            for batch in self.history
            for producer_id in (batch.producer_id if batch.producer_id in TRANSACTIONAL else -1,)
        ]

    def sequence_of(self, producer_id: int) -> int:
        return next((batch.last_sequence for batch in reversed(self.history) if batch.producer_id == producer_id), -1)


class Run:
    """The log of a follower, as often as its broker is started on the same disk."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        world = World(seed)
        self.scheduler = world.scheduler
        self.machine = world.machine("broker")
        self.files = self.machine.files
        self.model = Model()
        self.config = LogConfig(
            internal_segment_bytes=random.choice((250, 600, 2_000)),
            index_interval_bytes=random.choice((0, 100, 400)),
            flush_messages=random.choice((1, 3, 2**63 - 1)),
            flush_ms=random.choice((300, 2**63 - 1)),
            file_delete_delay_ms=random.choice((0, 700)),
            retention_ms=-1,
        )
        self.slices: list[tuple[FileSlice, bytes]] = []
        self.is_replicated = random.random() < 0.7
        """Whether the log is told so; otherwise a start takes all of it for committed."""

    @property
    def now_ms(self) -> int:
        return self.machine.wall_clock.now_ms()

    def start(self) -> Log:
        self.slices = []
        self.manager = LogManager(
            ["/data"],
            self.machine.start().environment,
            BROKER,
            limits=LogManagerLimits(open_files_max=3, initial_task_delay_ms=200),
            config_of=lambda topic: self.config,
        )
        self.manager.open()
        self.manager.ensure_meta_properties("cluster", 1, lambda: TOPIC_ID)
        log = self.manager.create(LOG, TOPIC_ID, self.config)
        if self.is_replicated:
            log.note_replicas()
        return log

    def live(self, log: Log) -> None:
        if self.random.random() < 0.7:
            self.files.crash_after(self.random.randrange(80))
        operations = (
            self.append, self.append, self.append, self.truncate, self.flush, self.work, self.work, self.wait,
            self.read, self.prune, self.empty,
        )  # fmt: skip
        for _ in range(self.random.randrange(30)):
            self.random.choice(operations)(log)
            self.scheduler.run_for(self.random.choice((0, 0.2)))
            for old, data in self.slices:
                assert data.startswith(old.read()), "a slice sends bytes that were never in its place"

    # ---- what a follower does

    def append(self, log: Log) -> None:
        model, random = self.model, self.random
        batches: list[Batch] = []
        offset = model.end
        history = list(model.history)
        for _ in range(random.randint(1, 4)):
            offset += random.choice((0, 0, 0, 3))  # the leader's log was compacted
            epoch = model.last_epoch() + (random.random() < 0.2)
            batches.append(self.batch(offset, epoch))
            offset = batches[-1].next_offset
            model.history.append(batches[-1])
        model.history = history
        model.in_flight = batches
        log.append_as_follower(memoryview(b"".join(batch.data for batch in batches)), self.now_ms)
        model.history += batches
        model.in_flight = []
        model.end = model.written = log.log_end_offset
        assert model.end == batches[-1].next_offset
        log.advance_high_watermark(random.randint(model.start, model.end))
        if random.random() < 0.3:
            log.log_dir.high_watermarks[LOG] = log.high_watermark
        check_committed(log, model.transactions(), random)

    def batch(self, offset: int, leader_epoch: int) -> Batch:
        random = self.random
        producer_id = random.choice((-1, -1, *IDEMPOTENT, *TRANSACTIONAL))
        if producer_id in TRANSACTIONAL and random.random() < 0.4:
            ends = random.choice((ControlType.ABORT, ControlType.COMMIT))
            data = build_end_transaction_marker(
                ends, base_offset=offset, partition_leader_epoch=leader_epoch, coordinator_epoch=0,
                producer_id=producer_id, producer_epoch=0, timestamp=self.now_ms,
            )  # fmt: skip
            return Batch(offset, offset + 1, bytes(data), leader_epoch, producer_id, -1, ends)
        records = [
            NewRecord(b"k", random.randbytes(random.randrange(60)), (), self.now_ms)
            for _ in range(random.randint(1, 3))
        ]
        fields: dict[str, Any] = {}
        last_sequence = -1
        if producer_id >= 0:
            first = random.randrange(1_000)  # the leader has checked it
            last_sequence = first + len(records) - 1
            fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": first}
        data = build_batch(
            records, base_offset=offset, partition_leader_epoch=leader_epoch,
            transactional=producer_id in TRANSACTIONAL, **fields,
        )  # fmt: skip
        return Batch(offset, offset + len(records), bytes(data), leader_epoch, producer_id, last_sequence, None)

    def truncate(self, log: Log) -> None:
        model = self.model
        if model.end == model.start or self.random.random() < 0.4:
            return
        offset = self.random.randint(model.start + 1, model.end)
        cut = next((batch.base_offset for batch in model.history if batch.next_offset > offset), offset)
        end = max(min(cut, offset), log.log_start_offset)
        model.durable, model.written = min(model.durable, end), end
        model.before_cut = model.before_cut or list(model.history)
        log.truncate_to(offset)
        model.before_cut = []
        model.history = [batch for batch in model.history if batch.next_offset <= end]
        if offset < model.end:
            model.durable = end
        model.end = model.written = log.log_end_offset
        model.start = min(model.start, end)
        assert model.end == end
        assert log.high_watermark <= end
        self.check_contents(log)

    def empty(self, log: Log) -> None:
        if self.random.random() < 0.9:
            return
        model = self.model
        offset = self.random.choice((0, model.start, model.end, model.end + 7))
        model.durable = model.written = 0
        model.is_emptying = True
        log.truncate_fully_and_start_at(offset)
        model.is_emptying = False
        model.history = []
        model.start = model.end = model.written = model.durable = offset
        model.before_cut = []

    def flush(self, log: Log) -> None:
        model, end, history = self.model, log.log_end_offset, self.model.history
        is_synced = end > log.recovery_point

        def flushed(done: Promise[None]) -> None:
            assert done.error is None, done.error
            if is_synced:
                model.before_cut = []
            if model.history is history or model.history[: len(history)] == history:
                model.durable = max(model.durable, min(end, model.written))

        log.flush().when_done(flushed)

    def work(self, log: Log) -> None:
        self.scheduler.run_for(self.random.choice((1, 2, 4)))

    def wait(self, log: Log) -> None:
        self.scheduler.run_for(self.random.choice((1, 100, 1_000)))

    def read(self, log: Log) -> None:
        if log.log_end_offset > log.log_start_offset:
            offset = self.random.randrange(log.log_start_offset, log.log_end_offset)
            found = log.read(offset, 400, max_offset=log.log_end_offset)
            if found is not None:
                self.slices.append((found, found.read()))

    def prune(self, log: Log) -> None:
        if self.random.random() < 0.2:
            offset = self.random.randint(log.log_start_offset, log.high_watermark)
            self.model.start = max(self.model.start, offset)
            log.delete_records(offset)

    # ---- what must be true

    def restart(self, *, power_cut: bool) -> Log:
        log = self.start()
        self.take_over(log, power_cut)
        self.check_contents(log)
        indexes_fit(log)
        return log

    def take_over(self, log: Log, power_cut: bool) -> None:
        """Checks that nothing is lost that was promised, and goes on from what survived."""
        model, end = self.model, log.log_end_offset
        if power_cut and self.is_undone(log):
            model.history, model.in_flight = model.before_cut, []
        model.before_cut = model.before_cut if not power_cut else []
        least = model.durable if power_cut else model.written
        lost = [batch for batch in model.history if max(end, model.start) < batch.next_offset <= least]
        assert not lost, f"promised up to {least}, the log ends at {end}: {[batch.base_offset for batch in lost]}"
        model.history = [batch for batch in model.history + model.in_flight if batch.next_offset <= end]
        model.in_flight = []
        if model.is_emptying and not model.history:
            model.start = log.log_start_offset
        model.start = max(min(model.start, end), log.log_start_offset)  # a deletion may be forgotten
        model.is_emptying = False
        model.end = model.written = end
        # Where the leader's log was compacted, offsets that belong to no batch are not promised.
        model.durable = end if power_cut else min(model.durable, end)

    def is_undone(self, log: Log) -> bool:
        """Returns whether the log holds what was there before a cut, and something of it that was cut off."""
        old = {batch.base_offset: batch.data for batch in self.model.before_cut}
        new = {batch.base_offset: batch.data for batch in self.model.history + self.model.in_flight}
        return any(data == old.get(offset) and data != new.get(offset) for offset, data in read_all(log).items())

    def check_contents(self, log: Log) -> None:
        model, found = self.model, read_all(log)
        expected = {batch.base_offset: batch.data for batch in model.history if batch.next_offset > model.start}
        extra = {offset: data for offset, data in found.items() if offset not in expected}
        known = {batch.base_offset: batch.data for batch in model.history}
        assert {offset: found.get(offset) for offset in expected} == expected, "the history is another one"
        assert all(known.get(offset) == data for offset, data in extra.items()), "batches that nobody sent"
        for offset in (offset for offset in found if offset >= model.start):
            assert log.epoch_of_offset(offset) == header_at(found[offset]).partition_leader_epoch
        if model.start == 0:
            for producer_id in IDEMPOTENT:
                entry = log.producers.by_id.get(producer_id)
                assert (entry.last_sequence if entry else -1) == model.sequence_of(producer_id), "another past"
            rows = [(row.first_offset, row.last_offset) for row in log.aborted.between(0, model.end)]
            assert rows == sorted(Transactions(model.transactions()).rows)
        check_committed(log, model.transactions(), self.random)

    def stop(self) -> None:
        self.manager.close()
        self.model.durable = self.model.end


def simulate(seed: int) -> int:
    run = Run(seed)
    crashes = 0
    power_cut = False
    while crashes < CRASHES_PER_RUN:
        try:
            if run.random.random() < 0.1:
                run.files.crash_after(run.random.randrange(12))
            log = run.restart(power_cut=power_cut)
            power_cut = False
            run.live(log)
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
def test_what_is_read_after_any_crash_is_one_history(shard: int) -> None:
    run_seeds(simulate, CRASHES // CRASHES_PER_RUN, shard=shard, shards=SHARDS)
