"""Barnabas and Apache Kafka side by side: the same C client, the same machine, one run. `make bench`.

The systems take turns, so that a slow minute hits both. Before every sample memory is warmed by writing and removing a
reserve file: on virtual machines the first touch of cold pages costs more than the broker does. Read the ratios.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness import BROKERS, KAFKA_LIBS, Broker, missing

RECORD_BYTES = 1000
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    produce_mb_s: float
    produce_cpu_s_gb: float
    consume_mb_s: float
    consume_cpu_s_gb: float
    latency_ms_p50: float
    latency_ms_p99: float


def cpu_seconds(broker: Broker) -> float:
    """User and system time of the broker's process so far."""
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def warm_memory(folder: Path, size_bytes: int) -> None:
    reserve = folder / "reserve"
    with reserve.open("wb") as file:
        for _ in range(0, size_bytes, 1 << 20):
            file.write(bytes(1 << 20))
    reserve.unlink()


def measured(broker: Broker, size_bytes: int, work: Iterator[None]) -> tuple[float, float]:
    """MB/s, and the broker's CPU seconds per GB."""
    started, cpu = time.perf_counter(), cpu_seconds(broker)
    for _ in work:
        pass
    elapsed, used = time.perf_counter() - started, cpu_seconds(broker) - cpu
    return size_bytes / 1e6 / elapsed, used / (size_bytes / 1e9)


def produce(broker: Broker, topic: str, count: int) -> Iterator[None]:
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "acks": "1", "batch.size": 1_000_000}
    producer = Producer({**settings, "queue.buffering.max.kbytes": 512 * 1024, "queue.buffering.max.messages": 500_000})
    value = os.urandom(RECORD_BYTES)
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        yield
    producer.flush()


def consume(broker: Broker, topic: str, count: int) -> Iterator[None]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.message.max.bytes": 4_000_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    while read < count:
        read += len(consumer.consume(10_000, timeout=1))
        yield
    consumer.close()


def latencies_ms(broker: Broker, topic: str, count: int) -> list[float]:
    """One record at a time, each sent when the one before it is acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": "all"})
    found = []
    for _ in range(count):
        started = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0)
        producer.flush()
        found.append((time.perf_counter() - started) * 1000)
    return found[count // 10 :]  # the first ones make the topic and warm the path


def sample(broker: Broker, folder: Path, number: int, size_bytes: int) -> Sample:
    topic, count = f"bench-{number}", size_bytes // RECORD_BYTES
    waits_ms = quantiles(latencies_ms(broker, f"{topic}-single", 1_000), n=100)
    warm_memory(folder, size_bytes)
    produced = measured(broker, size_bytes, produce(broker, topic, count))
    consumed = measured(broker, size_bytes, consume(broker, topic, count))
    return Sample(*produced, *consumed, waits_ms[49], waits_ms[98])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=200, help="megabytes per sample")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = ["barnabas"] if missing(("java", KAFKA_LIBS)) else ["barnabas", "kafka"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = {}
        for name in names:
            (folder / name).mkdir()
            brokers[name] = stack.enter_context(BROKERS[name](folder / name, {}))
        print("system    " + "".join(f"{field:>18}" for field in Sample._fields))
        for number in range(options.rounds):
            for name, broker in brokers.items():
                figures = sample(broker, folder, number, options.mb * 1_000_000)
                print(f"{name:10}" + "".join(f"{figure:18.2f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
