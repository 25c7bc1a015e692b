"""Three brokers with three replicas of everything, beside three Apache Kafka brokers with as many."""

import threading
import time
from itertools import pairwise
from signal import SIGKILL, SIGTERM

from confluent_kafka import KafkaError, Message, Producer

from benchmarks import admin
from benchmarks.bench import Bench, client_cores, mb_per_s, per_gb
from benchmarks.scenario import Case, Figures, Scenario, less, more, unjudged
from benchmarks.scenarios import latency, requests
from benchmarks.systems import Failed

PARTITIONS = 6
CATCH_UP_PARTITIONS = 4
PRODUCE_BYTES = 500e6
CALM_MS = 5_000
WRITES_PER_S = 500
LOST_AFTER_S = 60.0


def produce(bench: Bench, case: Case) -> Figures:
    records, topic = bench.scaled(PRODUCE_BYTES / 1000, at_least=PARTITIONS * 2), bench.spread_topic(PARTITIONS)
    bench.settle(3 * records * 1000)
    where = {"topic": topic, "partitions": PARTITIONS, "records": records}
    produced = bench.load("produce-bulk", record_bytes=1000, **where)
    consumed = bench.load("consume-bulk", **where)
    return {
        "produce MB/s": mb_per_s(produced),
        "produce CPU s/GB": per_gb(produced),
        "produce client cores": client_cores(produced),
        "consume MB/s": mb_per_s(consumed),
        "RSS MB": bench.rss_mb(),
    }


def catch_up(bench: Bench, case: Case) -> Figures:
    """Adds a replica of much data while a producer writes to other partitions, at a rate, as it did before."""
    busy, full = bench.topic(4), "full"
    admin.create_topic(bench.address, full, CATCH_UP_PARTITIONS, {}, [[1]] * CATCH_UP_PARTITIONS)
    records = bench.scaled(case.options["bytes"] / 1000, at_least=CATCH_UP_PARTITIONS * 2)
    copied = {"topic": full, "partitions": CATCH_UP_PARTITIONS, "records": records}
    produced = bench.load("produce-bulk", record_bytes=1000, **copied)
    bench.settle(50e6)
    writing = {"topic": busy, "partitions": 4, "connections": 4, "rate": WRITES_PER_S}
    calm = bench.load("produce", milliseconds=bench.scaled(CALM_MS, at_least=500), **writing)
    with bench.loading("produce", milliseconds=600_000, stop_on_line=1, **writing) as writer:
        writer.go()
        started = time.perf_counter()
        admin.reassign(bench.address, full, [[1, 2]] * CATCH_UP_PARTITIONS)
        admin.wait_until_in_sync(bench.address, full, 2)
        seconds = time.perf_counter() - started
        writer.go()
        beside = writer.result()
    bench.load("consume-bulk", **copied)
    return {
        "MB/s": produced["bytes"] / 1e6 / seconds,
        "write p99 ms before": calm["latency_ms_p99"],
        "write p99 ms meanwhile": beside["latency_ms_p99"],
        "times p99 before": beside["latency_ms_p99"] / calm["latency_ms_p99"],
    }


def failover(bench: Bench, case: Case) -> Figures:
    topic = bench.spread_topic(PARTITIONS)
    sender = Sender(bench.system.addresses, topic)
    sender.start()
    try:
        sender.wait_for_acknowledgements()
        ended_at = time.monotonic()
        bench.system.end_broker(1, case.options["signal"])
        sender.wait_for_acknowledgements()
        gap = sender.longest_gap_since(ended_at)
    finally:
        sender.is_stopped = True
        sender.join()
    bench.system.start_broker(1)
    admin.wait_until_in_sync(bench.system.addresses[1], topic, bench.system.replicas)
    return {"longest gap s": gap}


class Sender(threading.Thread):
    """An idempotent producer that sends to every partition in turn, a record each few milliseconds."""

    def __init__(self, addresses: list[str], topic: str) -> None:
        super().__init__()
        self.addresses, self.topic = addresses, topic
        self.is_stopped = False
        self.failure: str | None = None
        self.acknowledged_at: list[list[float]] = [[] for _ in range(PARTITIONS)]

    def run(self) -> None:
        servers = ",".join(self.addresses)
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                producer.produce(self.topic, b"x" * 100, partition=partition, on_delivery=self._delivered)
            producer.poll(0.005)
        producer.flush(LOST_AFTER_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is not None or partition is None:
            self.failure = str(error)
        else:
            self.acknowledged_at[partition].append(time.monotonic())

    def wait_for_acknowledgements(self) -> None:
        """Waits until every partition has acknowledged a hundred records more, or it is lost."""
        wanted, deadline = [len(times) + 100 for times in self.acknowledged_at], time.monotonic() + LOST_AFTER_S
        while any(len(times) < count for times, count in zip(self.acknowledged_at, wanted, strict=True)):
            if self.failure or time.monotonic() > deadline:
                raise Failed(self.failure or f"a partition acknowledged nothing more for {LOST_AFTER_S:g} s")
            time.sleep(0.01)

    def longest_gap_since(self, begin: float) -> float:
        """Returns the longest silence of any partition."""
        gaps = []
        for times in self.acknowledged_at:
            later = [begin, *(at for at in times if at > begin)]
            gaps.append(max(after - before for before, after in pairwise(later)))
        return max(gaps)


SCENARIOS = (
    Scenario(
        name="replicas-produce",
        title="Three replicas: produce and consume",
        method="One librdkafka producer (acks=all, linger 5 ms) writes records of 1 KB to 6 partitions whose leaders "
        "are spread over three brokers; min.insync.replicas is 2. Then one consumer reads all and checks every record. "
        "CPU and memory are those of all processes.",
        metrics=(
            more("produce MB/s"),
            less("produce CPU s/GB"),
            unjudged("produce client cores"),
            more("consume MB/s"),
            less("RSS MB", digits=0),
        ),
        cases=(Case("1 KB, none"),),
        measure=produce,
        samples_at_most=4,
        brokers=3,
        replicas=3,
    ),
    Scenario(
        name="replicas-requests",
        title="Three replicas: requests of one record",
        method="Produce requests with one record of 100 B each (acks=all), 64 in flight over 16 connections, to the "
        "leader of all partitions, which are 4 where nothing is said. CPU is that of all brokers. Read back and "
        "checked afterwards.",
        metrics=requests.REQUEST_METRICS,
        cases=(
            Case("16 connections, 64 in flight", {"connections": 16, "in_flight": 64}),
            Case("10 partitions", {"connections": 16, "in_flight": 64, "partitions": 10}),
            Case("1,000 partitions", {"connections": 16, "in_flight": 64, "partitions": 1_000}),
        ),
        measure=requests.one_record,
        samples_at_most=4,
        brokers=3,
        replicas=3,
    ),
    Scenario(
        name="replicas-latency",
        title="Three replicas: latency of an acknowledgement",
        method="One record of 100 B a request, acks=all: one at a time over one connection, and at a fixed rate over "
        "16.",
        metrics=latency.METRICS,
        cases=(Case("one at a time", {"load": {}}), latency.at_rate(500)),
        measure=latency.acknowledgement,
        samples_at_most=4,
        brokers=3,
        replicas=3,
    ),
    Scenario(
        name="replicas-catch-up",
        title="Three replicas: a new replica",
        method="Partitions with 10 GB in 1 KB records on one broker get a second replica on another, until it is in "
        f"sync. Meanwhile, and for 5 s before, {WRITES_PER_S} requests a second (acks=all, three replicas) go to other "
        "partitions of the same leader.",
        metrics=(
            more("MB/s"),
            less("write p99 ms before", digits=3),
            less("write p99 ms meanwhile", digits=3),
            unjudged("times p99 before"),
        ),
        cases=(Case("10 GB", {"bytes": 10e9}),),
        measure=catch_up,
        samples_at_most=1,
        brokers=3,
        replicas=3,
    ),
    Scenario(
        name="failover",
        title="Three replicas: a leader ends",
        method="An idempotent librdkafka producer (acks=all) sends to 6 partitions whose leaders are spread over three "
        "brokers. One broker is stopped (SIGTERM), and later killed (SIGKILL): the longest time between two "
        "acknowledgements of a partition.",
        metrics=(less("longest gap s", digits=2),),
        cases=(Case("stopped", {"signal": SIGTERM}), Case("killed", {"signal": SIGKILL})),
        measure=failover,
        samples_at_most=4,
        warm_up=False,
        brokers=3,
        replicas=3,
    ),
)
