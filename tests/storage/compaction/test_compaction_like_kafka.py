"""Kafka's own cleaner and ours make the same of the same logs, batch by batch and record by record."""

import time
from pathlib import Path
from random import Random

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.batch_header import BatchHeader, iter_batches
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.records import ControlType, NewRecord, Record, iter_records
from barnabas.protocol.types import TopicPartition
from barnabas.storage.compaction.cleaner import job_of
from barnabas.storage.compaction.compaction import Compaction
from barnabas.storage.log import Log
from barnabas.storage.log_manager_config import LogManagerConfig
from tests.kafka_jars import run_java
from tests.storage.logs import BatchFields, Broker, append
from tests.storage.test_kafka_reads_segments import dump, files_with

NOW_MS = time.time_ns() // 1_000_000
"""Kafka forgets producers that were silent for long."""
SECOND_MS, THIRD_MS = 1_000, 100_000
"""After the first cleaning: before its tombstones may go, and after."""


class Case:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.partition = TopicPartition("t", seed)
        self.codecs = (CompressionType.NONE, CompressionType.NONE, *CompressionType) if seed % 2 else (0,)
        # Codecs compress as well as they like: only segments that fit into one in any case are grouped alike.
        self.segment_bytes = 100_000 if seed % 2 else self.random.choice((4_500, 12_000))
        self.delete_retention_ms = self.random.choice((0, 10_000))
        self.map_bytes = self.random.choice((24 * 6, 24 * 10_000))
        self.times = [NOW_MS, NOW_MS + SECOND_MS, NOW_MS + THIRD_MS]
        self.sequences = dict.fromkeys((1, 2, 3, 4), 0)
        self.in_transaction: set[int] = set()
        self.leader_epoch = 0

    def fill(self, log: Log) -> None:
        for _ in range(self.random.randint(20, 60)):
            self.random.choice((self.data, self.data, self.data, self.transaction, self.end_transaction))(log)
            if self.random.random() < 0.15:
                log.roll(NOW_MS)
        for producer_id in sorted(self.in_transaction):
            self.end(log, producer_id)
        if self.random.random() < 0.8:
            log.roll(NOW_MS)
        append(
            log, build_batch([NewRecord(b"active", b"1", (), NOW_MS)]), leader_epoch=self.leader_epoch, now_ms=NOW_MS
        )

    def records(self) -> list[NewRecord]:
        return [
            NewRecord(
                None if self.random.random() < 0.05 else b"key %d" % self.random.randrange(12),
                None if self.random.random() < 0.2 else self.random.randbytes(self.random.randrange(90)),
                [("header", b"value")] if self.random.random() < 0.1 else (),
                NOW_MS - self.random.randrange(1_000),
            )
            for _ in range(self.random.choice((1, 1, 2, 5, 30)))
        ]

    def data(self, log: Log, *, transactional: bool = False, producer_id: int | None = None) -> None:
        records = self.records()
        fields: BatchFields = {"transactional": transactional}
        producer_id = producer_id or self.random.choice((0, 0, 1, 2))
        if producer_id:
            sequence = self.sequences[producer_id]
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer_id] += len(records)
        if self.random.random() < 0.1:
            fields["log_append_time"] = NOW_MS - self.random.randrange(500)
        fields["compression"] = self.random.choice(self.codecs)
        data = build_batch(records, **fields)
        self.leader_epoch += self.random.random() < 0.1
        append(log, data, leader_epoch=self.leader_epoch, now_ms=NOW_MS)

    def transaction(self, log: Log) -> None:
        producer_id = self.random.choice((3, 4))
        self.data(log, transactional=True, producer_id=producer_id)
        self.in_transaction.add(producer_id)

    def end_transaction(self, log: Log) -> None:
        if self.in_transaction:
            self.end(log, self.random.choice(sorted(self.in_transaction)))

    def end(self, log: Log, producer_id: int) -> None:
        self.in_transaction.discard(producer_id)
        marker = build_end_transaction_marker(
            self.random.choice((ControlType.COMMIT, ControlType.ABORT)),
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=NOW_MS,
        )
        log.append_as_coordinator(memoryview(marker), leader_epoch=self.leader_epoch, now_ms=NOW_MS)


CASES = [Case(seed) for seed in range(30)]


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, Path, list[int], list[int]]]:
    """Of each case Kafka's directory, ours, and how far each cleaning came with either."""
    root = tmp_path_factory.mktemp("logs")
    (root / "kafka").mkdir()
    (root / "ours").mkdir()
    broker = Broker(OsFiles(), [str(root / "kafka")], now_ms=NOW_MS)
    lines = []
    for case in CASES:
        log = broker.log(case.partition, internal_segment_bytes=case.segment_bytes, index_interval_bytes=200)
        case.fill(log)
        settings = (case.segment_bytes, case.delete_retention_ms, case.map_bytes, *case.times)
        paths = (log.path, root / "ours" / str(case.partition))
        lines.append(" ".join(map(str, (*paths, *settings))))
    broker.settle()
    broker.manager.close()
    ends = [[int(end) for end in line.split()] for line in run_java("CleanLog.java", "\n".join(lines)).splitlines()]
    ours = Broker(
        OsFiles(),
        [str(root / "ours")],
        now_ms=NOW_MS,
        producer_id_expiration_ms=1 << 40,
        log_cleaner_enable=False,
    )
    our_ends = [clean_with_ours(ours, case) for case in CASES]
    ours.manager.close()
    return {
        case.partition.partition: (
            root / "kafka" / str(case.partition),
            root / "ours" / str(case.partition),
            ends[number],
            our_ends[number],
        )
        for number, case in enumerate(CASES)
    }


def clean_with_ours(broker: Broker, case: Case) -> list[int]:
    log = broker.log(
        case.partition,
        cleanup_policy=("compact",),
        internal_segment_bytes=case.segment_bytes,
        index_interval_bytes=200,
        delete_retention_ms=case.delete_retention_ms,
        file_delete_delay_ms=0,
    )
    log.flusher.flush_now()
    settings = LogManagerConfig(log_cleaner_dedupe_buffer_size=case.map_bytes)
    ends = []
    for now_ms in case.times:
        if log.compaction.first_dirty_offset == log.segments.active.base_offset:
            log.log_dir.cleaner_offsets.pop(case.partition)
        compaction = Compaction(OsFiles(), job_of(log, log.compaction.cleanable(now_ms), settings, now_ms))
        for segment in compaction.run():
            log.compaction.swap(segment)
        log.log_dir.set_cleaner_offset(case.partition, compaction.stats.end_offset)
        ends.append(compaction.stats.end_offset)
    broker.clock.advance(1)
    return ends


def contents(directory: Path) -> dict[str, list[tuple[BatchHeader, bytes | list[Record]]]]:
    """Of each segment the batches: byte for byte, but of compressed ones only the contents can be compared."""
    found = {}
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        batches: list[tuple[BatchHeader, bytes | list[Record]]] = []
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            if header.compression:
                records = list(iter_records(batch, max_decompressed_bytes=1 << 24))
                batches.append((header._replace(batch_length=0, crc=0), records))
            else:
                batches.append((header, batch[61:]))
        found[path.name] = batches
    return found


@pytest.mark.parametrize("number", [case.partition.partition for case in CASES])
def test_kafkas_cleaner_leaves_the_same(
    number: int, cleaned: dict[int, tuple[Path, Path, list[int], list[int]]]
) -> None:
    kafka, ours, kafka_ends, our_ends = cleaned[number]
    assert our_ends == kafka_ends
    expected, found = contents(kafka), contents(ours)
    assert list(found) == list(expected)
    for name in expected:
        for left, right in zip(expected[name], found[name]):
            assert right == left, name
        assert len(found[name]) == len(expected[name]), name
    indexes = [{path.name: path.read_bytes() for path in each.glob("*.txnindex")} for each in (kafka, ours)]
    assert {name: data for name, data in indexes[1].items() if data} == {
        name: data for name, data in indexes[0].items() if data
    }


def test_kafkas_tool_finds_nothing_wrong_with_what_ours_left(
    cleaned: dict[int, tuple[Path, Path, list[int], list[int]]],
) -> None:
    paths = [path for number in (0, 1, 2) for path in files_with(cleaned[number][1], ".log")]
    text = dump(paths, "--deep-iteration", are_compacted=True)
    assert text.count("baseOffset:") == text.count("isvalid: true") > 0
    indexes = [path for number in (0, 1, 2) for path in files_with(cleaned[number][1], ".index", ".timeindex")]
    dump(indexes, "--index-sanity-check")
