"""Thousands of crashes in the middle of compaction: whatever is promised of a compacted log is true after each.

One run is one seed: a compacted log on a simulated disk, updates and tombstones, compactions that are interrupted at
any change to the disk by a kill or a power cut, a new start, the invariants, and on. A failing run says its seed;
`SIM_SEED=<seed>` runs that one alone.
"""

import os
from random import Random

import pytest

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.errors import OffsetOutOfRange
from barnabas.protocol.records import ControlType, NewRecord, Record, iter_records
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerConfig, LogManagerLimits
from barnabas.storage.transactions.marker import TransactionMarker
from tests.simulation.files import Crash
from tests.simulation.seeds import run_seeds
from tests.simulation.test_crash import indexes_fit
from tests.simulation.world import World
from tests.storage.logs import end_transaction, verified
from tests.storage.transactions.committed import Transactions, Written, read_committed

CRASHES = int(os.environ.get("CRASHES", "3000"))
CRASHES_PER_RUN = 20
SHARDS = 6
TOPIC_ID = bytes(range(16))
LOG = TopicPartition("t", 0)
IDEMPOTENT = (1, 2)
TRANSACTIONAL = (3, 4)
KEYS = [b"%d" % number for number in range(6)]


class Model:
    """What was appended and is not lost, and what of it may be missing."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.appended_ms: dict[int, int] = {}
        self.end = 0
        self.durable = 0
        self.gone: set[int] = set()
        """Offsets that a finished compaction removed: they do not come back."""
        self.last_batches: dict[int, tuple[int, bytes]] = {}
        """Of each producer where its last batch begins, and its bytes."""
        self.history: list[Written] = []
        self.decisions: dict[int, ControlType] = {}
        """How each transaction ends, by its first offset: whoever decides that remembers it, even if a power cut takes
        the marker."""

    @property
    def transactions(self) -> Transactions:
        return Transactions(self.history)

    @property
    def decided(self) -> Transactions:
        """The transactions as they will have ended when every marker that was lost is written again."""
        lost = [
            Written(self.end, self.end, producer_id, self.decisions[batches[0].base_offset])
            for producer_id, batches in self.transactions.open.items()
            if batches[0].base_offset in self.decisions
        ]
        return Transactions(self.history + lost)

    def cut(self, end: int) -> None:
        self.history = [batch for batch in self.history if batch.next_offset <= end]
        self.decisions = {first: ends for first, ends in self.decisions.items() if first < end}
        self.records = {offset: record for offset, record in self.records.items() if offset < end}
        self.last_batches = {key: last for key, last in self.last_batches.items() if last[0] < end}
        self.gone = {offset for offset in self.gone if offset < end}
        self.end = end


class Run:
    """A compacted log, as often as its broker is started on the same disk."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        world = World(seed)
        self.scheduler = world.scheduler
        self.machine = world.machine("broker")
        self.files = self.machine.files
        self.model = Model()
        self.sequences = dict.fromkeys((*IDEMPOTENT, *TRANSACTIONAL), 0)
        self.epochs = dict.fromkeys(self.sequences, 0)
        self.config = LogConfig(
            cleanup_policy=("compact",),
            internal_segment_bytes=random.choice((300, 700, 2_000)),
            index_interval_bytes=random.choice((0, 100, 400)),
            min_cleanable_dirty_ratio=random.choice((0.0, 0.3)),
            min_compaction_lag_ms=random.choice((0, 0, 2_000)),
            max_compaction_lag_ms=random.choice((2_000, 2**63 - 1)),
            delete_retention_ms=random.choice((0, 1_000, 5_000)),
            flush_messages=random.choice((1, 3, 2**63 - 1)),
            file_delete_delay_ms=random.choice((0, 700)),
        )
        self.broker = LogManagerConfig(
            log_flush_offset_checkpoint_interval_ms=400,
            producer_id_expiration_ms=1 << 50,
            log_cleaner_backoff_ms=random.choice((0, 500)),
            log_cleaner_dedupe_buffer_size=random.choice((24 * 3, 24 * 1_000)),  # a few keys only, or all of them
            log_cleaner_io_buffer_load_factor=0.9,
        )
        self.limits = LogManagerLimits(open_files_max=random.choice((2, 50)), initial_task_delay_ms=200)

    @property
    def now_ms(self) -> int:
        return self.machine.wall_clock.now_ms()

    # ---- a life of the process

    def start(self) -> Log:
        self.manager = LogManager(
            ["/data"],
            self.machine.start().environment,
            self.broker,
            limits=self.limits,
            config_of=lambda topic: self.config,
        )
        self.manager.open()
        self.manager.ensure_meta_properties("cluster", 1, lambda: TOPIC_ID)
        return self.manager.create(LOG, TOPIC_ID, self.config)

    def live(self, log: Log) -> None:
        if self.random.random() < 0.8:
            self.files.crash_after(self.random.randrange(150))
        self.end_what_is_decided(log)
        operations = (
            self.append,
            self.append,
            self.append,
            self.end,
            self.work,
            self.work,
            self.work,
            self.wait,
            self.read,
            self.prune,
        )
        for _ in range(self.random.randrange(80)):
            self.random.choice(operations)(log)
            self.scheduler.run_for(self.random.choice((0, 0.2)))
            self.remember_what_is_gone(log)

    def append(self, log: Log) -> None:
        model, base_offset = self.model, log.log_end_offset
        records = [
            NewRecord(
                self.random.choice(KEYS),
                None if self.random.random() < 0.3 else self.random.randbytes(self.random.randrange(40)),
                (),
                self.now_ms - self.random.choice((0, 0, 500)),
            )
            for _ in range(self.random.randint(1, 4))
        ]
        producer_id = self.random.choice((-1, *IDEMPOTENT, *TRANSACTIONAL))
        data = build_batch(
            records,
            compression=self.random.choice((0, 0, 1)),
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, -1),
            base_sequence=self.sequences.get(producer_id, -1),
            transactional=producer_id in TRANSACTIONAL,
        )
        sent = bytes(data)
        for number, (key, value, _, timestamp) in enumerate(records):
            model.records[base_offset + number] = Record(base_offset + number, timestamp, key, value)
            model.appended_ms[base_offset + number] = self.now_ms
        if producer_id > 0:
            model.last_batches[producer_id] = (base_offset, sent)
        in_transaction = producer_id if producer_id in TRANSACTIONAL else -1
        model.history.append(Written(base_offset, base_offset + len(records), in_transaction))
        log.append(memoryview(data), leader_epoch=0, now_ms=self.now_ms, guard=verified(log, data))
        log.advance_high_watermark(log.log_end_offset)
        if producer_id > 0:
            self.sequences[producer_id] += len(records)
        model.end = log.log_end_offset

    def end(self, log: Log) -> None:
        transactions = self.model.transactions.open
        producer_id = self.random.choice(TRANSACTIONAL)
        if producer_id in transactions:
            is_aborted = self.random.random() < 0.5
            first_offset = transactions[producer_id][0].base_offset
            self.model.decisions[first_offset] = ControlType.ABORT if is_aborted else ControlType.COMMIT
            self.end_what_is_decided(log)

    def end_what_is_decided(self, log: Log) -> None:
        model = self.model
        for producer_id, batches in model.transactions.open.items():
            ends = model.decisions.get(batches[0].base_offset)
            if ends is None:
                continue
            is_v2, offset = self.random.random() < 0.5, log.log_end_offset
            epoch = self.epochs[producer_id] + is_v2
            marker = TransactionMarker(producer_id, epoch, 0, ends is ControlType.COMMIT, 2 if is_v2 else 1)
            model.history.append(Written(offset, offset + 1, producer_id, ends))
            if is_v2:
                model.last_batches.pop(producer_id, None)
                self.epochs[producer_id], self.sequences[producer_id] = epoch, 0
            end_transaction(log, marker, now_ms=self.now_ms)
            log.advance_high_watermark(log.log_end_offset)
            model.end = log.log_end_offset

    def work(self, log: Log) -> None:
        self.scheduler.run_for(self.random.choice((1, 5, 20)))
        if self.random.random() < 0.1:
            end = log.log_end_offset
            log.flush().when_done(lambda done: setattr(self.model, "durable", max(self.model.durable, end)))

    def wait(self, log: Log) -> None:
        self.scheduler.run_for(self.random.choice((1, 100, 1_000, 3_000)))

    def read(self, log: Log) -> None:
        """From an offset whose record may be gone: what comes is what follows it."""
        offset = self.random.randint(0, log.log_end_offset)
        try:
            found = log.read(offset, 1_000, max_offset=log.log_end_offset)
        except OffsetOutOfRange:
            assert offset < log.log_start_offset
            return
        if found is not None:
            batches = [header for _, header in iter_batches(found.read())]
            assert batches[0].last_offset >= offset, "a read goes back"

    def prune(self, log: Log) -> None:
        if self.random.random() < 0.05:
            log.delete_records(self.random.randint(log.log_start_offset, log.log_end_offset))

    def remember_what_is_gone(self, log: Log) -> None:
        if not self.manager.cleaner.is_running:
            present = read_all(log)
            start = log.log_start_offset  # what lies below was deleted; that may come back
            self.model.gone |= {offset for offset in self.model.records if offset >= start and offset not in present}

    # ---- after a crash

    def restart(self, *, power_cut: bool) -> Log:
        log = self.start()
        model = self.model
        must_have = model.durable if power_cut else model.end
        assert log.log_end_offset >= must_have, f"the log ends at {log.log_end_offset}, {must_have} was promised"
        appended = model.history[-1].next_offset if model.history else 0
        assert log.log_end_offset <= appended, "the log ends behind what was appended"
        model.cut(log.log_end_offset)
        if power_cut:
            model.durable = log.log_end_offset
        self.check(log, read_all(log))
        self.check_what_is_committed(log)
        indexes_fit(log)
        self.check_producers(log)
        names = self.files.listdir(log.path)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], names
        return log

    def check(self, log: Log, present: dict[int, Record]) -> None:
        model, start = self.model, log.log_start_offset
        assert list(present) == sorted(present), "offsets do not ascend"
        for offset, record in present.items():
            assert record == model.records[offset], f"the record at {offset} changed"
            assert offset not in model.gone or offset < start, f"the record at {offset} came back"
        undecided = {
            offset for batches in model.decided.open.values() for batch in batches for offset in offsets(batch)
        }
        missing = {offset for offset in undecided if offset >= start} - set(present)
        assert not missing, f"records of transactions that may be committed are gone: {sorted(missing)}"
        self.check_latest(log, {offset: record for offset, record in present.items() if offset not in undecided})

    def check_what_is_committed(self, log: Log) -> None:
        """Reads as a client that wants committed records does. What it finds is as good as the whole log."""
        offset = self.random.choice(
            (log.log_start_offset, self.random.randint(log.log_start_offset, log.log_end_offset))
        )
        stable, decided = log.last_stable_offset, self.model.decided
        found = {header.base_offset for header in read_committed(log, offset, self.random, is_compacted=True)}
        aborted = found & decided.aborted
        assert not aborted, f"from {offset} to {stable}, aborted batches are told: {sorted(aborted)}"
        present = read_all(log)
        for batch in self.model.history:
            if batch.ends is None and offset < batch.next_offset <= stable and batch.base_offset not in decided.aborted:
                is_left = any(each in present for each in offsets(batch))
                assert batch.base_offset in found or not is_left, f"from {offset}, {batch} is not told"

    def check_latest(self, log: Log, present: dict[int, Record]) -> None:
        """The last committed record of each key is there, unless it is a tombstone that is old enough."""
        model, start = self.model, log.log_start_offset
        decided = model.decided
        latest: dict[bytes | None, int] = {}
        committed: set[int] = set()
        for batch in model.history:
            is_open = batch.producer_id in decided.open and batch in decided.open[batch.producer_id]
            if batch.ends is None and batch.base_offset not in decided.aborted and not is_open:
                committed.update(offsets(batch))
        for offset in sorted(committed):
            if offset >= start:
                latest[model.records[offset].key] = offset
        for key, offset in latest.items():
            if offset not in present:
                record = model.records[offset]
                assert record.value is None, f"the last value of {key!r}, at {offset}, is gone"
                age_ms = self.now_ms - model.appended_ms[offset]
                assert age_ms >= self.config.delete_retention_ms, f"the tombstone at {offset} is gone after {age_ms} ms"
                alive = (each.offset for each in present.values() if each.key == key and each.offset in committed)
                older = [each for each in alive if each >= start]
                assert not older, f"{key!r} was deleted at {offset} and is alive again at {older}"

    def check_producers(self, log: Log) -> None:
        """A batch that is sent again is known, though its records may be compacted away."""
        for producer_id, (base_offset, sent) in self.model.last_batches.items():
            if base_offset >= log.log_start_offset:
                info = log.append(memoryview(bytearray(sent)), leader_epoch=0, now_ms=self.now_ms)
                assert info.duplicate, f"a batch of producer {producer_id} was stored twice"
                assert info.base_offset == base_offset
        for producer_id in self.sequences:
            entry = log.producers.by_id.get(producer_id)
            self.sequences[producer_id] = entry.last_sequence + 1 if entry else 0
            self.epochs[producer_id] = entry.producer_epoch if entry else 0


def offsets(batch: Written) -> range:
    return range(batch.base_offset, batch.next_offset)


def read_all(log: Log) -> dict[int, Record]:
    """Every record, by its offset, as somebody finds them who reads from the start."""
    found: dict[int, Record] = {}
    offset = log.log_start_offset
    while (data := log.read(offset, 400, max_offset=log.log_end_offset)) is not None:
        view = data.read()
        assert len(view) == data.size
        for position, header in iter_batches(view):
            assert header.last_offset >= offset, "a batch comes twice"
            batch = view[position : position + header.size_bytes]
            for record in () if header.is_control else iter_records(batch, max_decompressed_bytes=1 << 20):
                assert record.offset not in found, "a record comes twice"
                found[record.offset] = record
            offset = header.next_offset
    return found


def simulate(seed: int) -> int:
    """How many compactions were finished."""
    run = Run(seed)
    power_cut = False
    runs = 0
    for _ in range(CRASHES_PER_RUN):
        try:
            if run.random.random() < 0.15:
                run.files.crash_after(run.random.randrange(20))
            log = run.restart(power_cut=power_cut)
            power_cut = False
            run.live(log)
            if run.random.random() < 0.2:
                run.manager.close()
        except Crash:
            pass
        runs += run.manager.cleaner.runs
        if run.random.random() < 0.5:
            run.machine.kill()
        else:
            run.machine.cut_power()
            power_cut = True
    return runs


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_compacted_log_is_good_after_any_crash(shard: int) -> None:
    runs = run_seeds(simulate, CRASHES // CRASHES_PER_RUN, shard=shard, shards=SHARDS)
    assert sum(runs) >= len(runs) * CRASHES_PER_RUN // 20, "hardly anything was compacted: nothing was tested"
