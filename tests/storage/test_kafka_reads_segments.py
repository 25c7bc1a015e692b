"""Kafka's own DumpLogSegments reads what we write, and finds in it what we put there."""

import re
import subprocess
from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.records import NewRecord
from barnabas.storage.log import Log
from barnabas.storage.transactions.marker import TransactionMarker
from tests.kafka_jars import kafka_libs
from tests.storage.logs import NOW_MS, BatchFields, Broker, append, batch, end_transaction

SEGMENT_BYTES = 3_000
OPEN, ABORTED = 10, 11  # producers whose transactions are so


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with everything in it: closed segments and an active one, all codecs, producers, a transaction, epochs."""
    data = tmp_path_factory.mktemp("data")
    broker = Broker(OsFiles(), [str(data)])
    log = broker.log(internal_segment_bytes=SEGMENT_BYTES, index_interval_bytes=200, file_delete_delay_ms=0)
    fill(log)
    log.delete_records(5)
    broker.settle()
    broker.manager.close()
    return Path(log.path)


def fill(log: Log) -> None:
    for number in range(60):
        codec = list(CompressionType)[number % 5]
        headers = [("trace", b"1"), ("trace", None)] if number % 7 == 0 else []
        value = b"value %d" % number * 9
        records = [NewRecord(b"key", value, headers, NOW_MS + number * 10 - each) for each in range(3)]
        append(log, build_batch(records, compression=codec), leader_epoch=number // 20)
        producer: BatchFields = {"producer_id": 1 + number % 2, "producer_epoch": 0, "base_sequence": number // 2}
        append(log, batch(b"idempotent", timestamp=NOW_MS - number, **producer), leader_epoch=number // 20)
    append(log, in_transaction(9))
    append(log, in_transaction(OPEN))
    append(log, in_transaction(ABORTED))
    for marker in (TransactionMarker(9, 0, 0, True, 1), TransactionMarker(ABORTED, 1, 4, False, 2)):
        end_transaction(log, marker, leader_epoch=2)


def in_transaction(producer_id: int) -> bytearray:
    return batch(b"in a transaction", producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def dump(files: list[Path], *options: str, are_compacted: bool = False) -> str:
    """What the tool says; it must not complain, except of the gaps that compaction leaves."""
    libs = kafka_libs()
    names = ",".join(str(file) for file in files)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run([*command, "--files", names, *options], capture_output=True, text=True, timeout=100)
    gaps = r"Non-consecutive offsets in .*\n|  -?\d+ is followed by \d+\n"
    errors = re.sub(gaps, "", done.stderr) if are_compacted else done.stderr
    assert (done.returncode, complaints(errors)) == (0, "")
    return done.stdout


def complaints(text: str) -> str:
    """Without the words of logging frameworks. Kafka 4.3 misses an offset -1 before every segment that does not begin
    with 0, its own ones too."""
    text = re.sub(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n(?!  )", "", text)
    return re.sub(r"(?m)^(SLF4J|.*StatusLogger).*\n", "", text)


def files_with(segments: Path, *suffixes: str) -> list[Path]:
    found = sorted(path for path in segments.iterdir() if path.name.endswith(suffixes))
    assert len(found) > len(suffixes), "closed segments and the active one"
    return found


def test_every_batch_and_record_is_read(segments: Path) -> None:
    text = dump(files_with(segments, ".log"), "--deep-iteration")
    assert text.count("baseOffset:") == text.count("isvalid: true")
    offsets = [int(line.split("offset: ")[1].split()[0]) for line in text.splitlines() if line.startswith("| offset:")]
    assert offsets == list(range(offsets[0], 245))
    assert all(f"compresscodec: {name}" in text for name in ("none", "gzip", "snappy", "lz4", "zstd"))
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in text
    assert "endTxnMarker: ABORT coordinatorEpoch: 4" in text


def test_the_indexes_match_the_log(segments: Path) -> None:
    text = dump(files_with(segments, ".index", ".timeindex"))
    assert text.count("position: ") > 20
    assert text.count("timestamp: ") > 5


def test_the_indexes_pass_the_check_of_a_start(segments: Path) -> None:
    files = files_with(segments, ".index", ".timeindex")
    text = dump(files, "--index-sanity-check")
    assert text.count("passed sanity check") == len(files)


def test_producer_snapshots_are_read(segments: Path) -> None:
    text = dump(files_with(segments, ".snapshot")[-1:])
    rows = [line for line in text.splitlines() if line.startswith("producerId")]
    last = {int(row.split()[1]): row for row in rows}  # as Kafka does when it loads them
    assert [*last] == [1, 2, 9, OPEN, ABORTED]
    assert [row.split("lastSequence: ")[1].split()[0] for row in rows if row.split()[1] == "1"][-2:] == ["28", "29"]
    assert "currentTxnFirstOffset: OptionalLong[241]" in last[OPEN], "it is not ended so far"
    assert "producerEpoch: 1 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong.empty" in last[ABORTED]


def test_transaction_indexes_are_read(segments: Path) -> None:
    text = dump(sorted(segments.glob("*.txnindex")))
    row = f"version: 0 producerId: {ABORTED} firstOffset: 242 lastOffset: 244 lastStableOffset: 241"
    assert [line for line in text.splitlines() if line.startswith("version")] == [row]
