"""The load generator by itself: what goes before, what it counts, and that it always ends."""

import struct
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.bench import Bench
from benchmarks.generator import loading
from benchmarks.systems import Failed
from tests.benchmarks.conftest import LyingBroker
from tests.lying import lies
from tests.lying.proxy import PRODUCE, Exchange, Lie

INDEX_INTERVAL_BYTES = 4096


def batch_sizes(log: Path) -> list[int]:
    data, at, sizes = log.read_bytes(), 0, []
    while at + 12 <= len(data):
        sizes.append(struct.unpack_from(">i", data, at + 8)[0] + 12)
        at += sizes[-1]
    return sizes


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("record_bytes", [100, 1000, 100_000])
def test_the_first_index_entries_are_written_before_producing_is_measured(
    record_bytes: int, compression: str, bench_behind: Callable[[Lie], Bench]
) -> None:
    bench = bench_behind(lies.none)
    topic, records = bench.topic(2), 60_000_000 // record_bytes // 10
    where = {"topic": topic, "partitions": 2, "records": records}
    with bench.loading("produce-bulk", record_bytes=record_bytes, compression=compression, **where) as load:
        for partition in range(2):
            (log,) = bench.system.log_dir().glob(f"{topic}-{partition}/*.log")
            sizes = batch_sizes(log)
            assert len(sizes) >= 3
            assert sum(sizes) > 3 * INDEX_INTERVAL_BYTES
        produced = load.run()
    assert records * 2 / 3 <= produced["records"] < records
    assert produced["bytes"] == produced["records"] * record_bytes
    bench.load("consume-bulk", **where)


def test_the_checksum_is_that_of_the_values(bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lies.none)
    topic = bench.topic(3)
    produced = bench.load("produce-bulk", topic=topic, partitions=3, records=50, record_bytes=100, checksum=1)
    consumer = Consumer({"bootstrap.servers": bench.address, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    values = [message.value() for message in consumer.consume(50, timeout=20)]
    consumer.close()
    assert len(values) == 50
    assert sum(zlib.crc32(value or b"") for value in values) == produced["crc32_sum"]


def test_one_slow_request_of_a_hundred_is_the_maximum_and_not_the_p99(bench_behind: Callable[[Lie], Bench]) -> None:
    def stalls_once(exchange: Exchange) -> bytes:
        if exchange.api_key == PRODUCE and exchange.number == 50:
            time.sleep(1)  # the broker's stall, not a wait for it
        return exchange.forward(exchange.request)

    bench = bench_behind(stalls_once)
    produced = bench.load("produce", topic=bench.topic(1), requests=100)
    assert produced["latency_ms_max"] >= 1000 > produced["latency_ms_p99"]


@pytest.mark.parametrize(("requests", "told"), [(9_999, False), (10_000, True)])
def test_p99_9_takes_ten_thousand_samples(
    requests: int, told: bool, bench_behind: Callable[[Lie], Bench], lying_broker: LyingBroker
) -> None:
    bench, past_the_proxy = bench_behind(lies.none), f"127.0.0.1:{lying_broker.port}"
    load = {"topic": bench.topic(1), "requests": requests, "in_flight": 16, "address": past_the_proxy}
    assert ("latency_ms_p99.9" in bench.load("produce", **load)) == told


def test_readers_that_come_to_the_end_begin_again_until_they_are_stopped(bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lies.none)
    topic = bench.topic(2)
    written = bench.load("produce", topic=topic, partitions=2, requests=10, records=10)
    reading = {"topic": topic, "partitions": 2, "streams": int(written["streams"]), "readers": 3}
    read = bench.load("read", milliseconds=300, **reading)
    assert read["records"] > 3 * 2 * written["records"], "one that waits there measures nothing"
    assert bench.load("read", expect=int(written["records"]), **reading)["records"] == 3 * written["records"]


def python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(("import sys, time, pathlib", *lines))]


def test_a_program_that_says_nothing_is_killed() -> None:
    with (
        pytest.raises(Failed, match=r"hung in (?s:.*): it said nothing for 0\.3 s"),
        loading(python("time.sleep(100)"), {}, line_seconds=0.3),
    ):
        pass


def test_a_program_that_hangs_later_is_killed() -> None:
    command = python("print('ready', flush=True)", "sys.stdin.readline()", "time.sleep(100)")
    with loading(command, {}, line_seconds=2) as load, pytest.raises(Failed, match="hung"):
        load.run()


def test_a_program_that_fails_says_how() -> None:
    with pytest.raises(Failed, match="exit code 7"), loading(python("sys.exit(7)"), {}):
        pass


def test_a_program_may_clean_up_after_its_last_result(tmp_path: Path) -> None:
    mark = tmp_path / "clean"
    command = python(
        "print('ready', flush=True)",
        "sys.stdin.readline()",
        "print('{\"seconds\": 1}', flush=True)",
        f"time.sleep(0.3); pathlib.Path({str(mark)!r}).touch()",
    )
    with loading(command, {}) as load:
        assert load.run() == {"seconds": 1}
    assert mark.exists()
