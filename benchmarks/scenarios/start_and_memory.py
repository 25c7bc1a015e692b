"""Start to the first answer, memory, and what a broker costs that does nothing."""

import time

from benchmarks.bench import Bench
from benchmarks.scenario import Case, Figures, Scenario, less

IDLE_SECONDS = 3


def start(bench: Bench, case: Case) -> Figures:
    return {"start ms": bench.start_seconds * 1000}


def memory(bench: Bench, case: Case) -> Figures:
    return WAYS[case.name](bench)


def idle(bench: Bench) -> Figures:
    seconds = IDLE_SECONDS * min(1, bench.scale)
    time.sleep(seconds)  # until compilers and the like have done what the start, or the load, left them
    used = bench.cpu_seconds()
    time.sleep(seconds)
    return {"RSS MB": bench.rss_mb(), "CPU %": (bench.cpu_seconds() - used) / seconds * 100}


def many_connections(bench: Bench) -> Figures:
    with bench.loading("hold", connections=1000) as held:
        figures = idle(bench)
        held.run()
    return figures


def many_partitions(bench: Bench) -> Figures:
    topic, partitions = bench.topic(1000), 1000
    produced = bench.load("produce", topic=topic, partitions=partitions, requests=partitions * 4)
    figures = idle(bench)
    bench.read_back(topic, partitions, produced)
    return figures


def after_load(bench: Bench) -> Figures:
    records, topic = bench.scaled(3e6, at_least=8), bench.topic(4)
    bench.load("produce-bulk", topic=topic, partitions=4, record_bytes=1000, records=records)
    bench.load("consume-bulk", topic=topic, partitions=4, records=records)
    return idle(bench)


WAYS = {
    "idle": idle,
    "1,000 connections": many_connections,
    "1,000 partitions": many_partitions,
    "after 3 GB": after_load,
}

SCENARIOS = (
    Scenario(
        name="start",
        title="Start",
        method="From the start of the process with an empty data directory to its first answer to Metadata.",
        metrics=(less("start ms", digits=0),),
        cases=(Case("empty", quick=True),),
        measure=start,
        warm_up=False,
    ),
    Scenario(
        name="memory",
        title="Memory, and CPU when idle",
        method="Resident memory of the broker's processes: freshly started, with 1,000 idle connections, with 1,000 "
        "partitions that were written to, and after 3 GB of 1 KB records came in and went out: one after the other on "
        "one broker, which keeps the partitions to the end. Each time nothing happens for 3 s, and CPU is that of the "
        "3 s that follow.",
        metrics=(less("RSS MB", digits=1), less("CPU %")),
        cases=tuple(Case(name, quick=name == "idle") for name in WAYS),
        measure=memory,
        samples_at_most=2,
        warm_up=False,
    ),
)
