"""Several brokers on one machine as one cluster, beside one Apache Kafka broker, which has a thread for each core."""

import time
from contextlib import ExitStack

from benchmarks import admin
from benchmarks.bench import Bench, client_cores, mb_per_s, per_gb, us_per_request
from benchmarks.generator import Outcome
from benchmarks.scenario import Case, Figures, Scenario, less, more, unjudged
from benchmarks.scenarios.start_and_memory import idle

CLIENTS = 2
TOPICS = 1_000


def at_once(bench: Bench, mode: str, options: list[dict[str, object]]) -> tuple[Outcome, list[Outcome]]:
    """Loads as many brokers as there are options, at the same time; returns what all did together, and each."""
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        loads = [
            stack.enter_context(broker.loading(mode, **chosen))
            for broker, chosen in zip(bench.brokers(CLIENTS), options, strict=True)
        ]

        def together() -> Outcome:
            for load in loads:
                load.go()
            outcomes.extend(load.result() for load in loads)
            counted = [key for key in ("requests", "bytes", "client_cpu_s") if key in outcomes[0]]
            total = {key: sum(one[key] for one in outcomes) for key in counted}
            return total | {"seconds": max(one["seconds"] for one in outcomes)}

        return bench.measured(together), outcomes


def requests(bench: Bench, case: Case) -> Figures:
    topics = [broker.topic(4) for broker in bench.brokers(CLIENTS)]
    bench.settle(100e6)
    length = {"milliseconds": bench.scaled(1500, at_least=50), "connections": 8, "in_flight": 32, "before": 8}
    produced, each = at_once(bench, "produce", [{"topic": topic, "partitions": 4, **length} for topic in topics])
    for broker, topic, outcome in zip(bench.brokers(CLIENTS), topics, each, strict=True):
        broker.read_back(topic, 4, outcome)
    return {
        "requests/s": produced["requests"] / produced["seconds"],
        "CPU µs/request": us_per_request(produced),
        "client cores": client_cores(produced),
    }


def consume(bench: Bench, case: Case) -> Figures:
    reading: list[dict[str, object]] = []
    for broker in bench.brokers(CLIENTS):
        topic = broker.topic(4)
        length = {"requests": bench.scaled(10_000, at_least=8), "records": 16, "record_bytes": 1000}
        produced = broker.load("produce", topic=topic, partitions=4, connections=8, in_flight=8, **length)
        streams, milliseconds = int(produced["streams"]), bench.scaled(1500, at_least=50)
        reading.append(
            {"topic": topic, "partitions": 4, "readers": 8, "streams": streams, "milliseconds": milliseconds}
        )
    consumed, _ = at_once(bench, "read", reading)
    return {"MB/s": mb_per_s(consumed), "CPU s/GB": per_gb(consumed), "client cores": client_cores(consumed)}


def topics(bench: Bench, case: Case) -> Figures:
    names = [f"created-{number}" for number in range(bench.scaled(TOPICS, at_least=10))]
    started = time.perf_counter()
    admin.create_topics(bench.address, names)
    return {"topics/s": len(names) / (time.perf_counter() - started)}


REQUESTS_METHOD = (
    "Produce requests with one record of 100 B each (acks=1) from two clients at once, each with 8 connections, 32 in "
    "flight, and a topic of 4 partitions{}. CPU is that of all brokers. Read back and checked "
    "afterwards."
)
REQUEST_METRICS = (more("requests/s"), less("CPU µs/request", digits=1), unjudged("client cores"))

SCENARIOS = (
    Scenario(
        name="cluster-start",
        title="Three brokers: start, memory, and CPU when idle",
        method="`barnabas start --brokers 3` with an empty data directory until each of the three answers, beside one "
        "Apache Kafka broker. Then nothing happens for 3 s, and CPU is that of the 3 s that follow.",
        metrics=(less("start ms", digits=0), less("RSS MB", digits=1), less("CPU %")),
        cases=(Case("empty"),),
        measure=lambda bench, _case: {"start ms": bench.start_seconds * 1000, **idle(bench)},
        brokers=3,
        warm_up=False,
    ),
    Scenario(
        name="one-broker-requests",
        title="Requests of one record to one broker, from two clients",
        method=REQUESTS_METHOD.format(""),
        metrics=REQUEST_METRICS,
        cases=(Case("16 connections, 64 in flight"),),
        measure=requests,
    ),
    Scenario(
        name="two-brokers-requests",
        title="Requests of one record to two brokers",
        method=REQUESTS_METHOD.format(" on a broker of its own. Apache Kafka is one broker"),
        metrics=REQUEST_METRICS,
        cases=(Case("16 connections, 64 in flight"),),
        measure=requests,
        brokers=2,
    ),
    Scenario(
        name="two-brokers-consume",
        title="Consume from two brokers over 16 connections",
        method="Two clients with 8 connections each read topics of 4 partitions with batches of 16 records of 1 KB, "
        "each from a broker of its own, each connection all of it from the start and then again, for 1.5 s, and check "
        "every record. Apache Kafka is one broker.",
        metrics=(more("MB/s"), less("CPU s/GB"), unjudged("client cores")),
        cases=(Case("16 connections"),),
        measure=consume,
        brokers=2,
    ),
    Scenario(
        name="two-brokers-topics",
        title="Creating topics on two brokers",
        method=f"One CreateTopics request for {TOPICS:,} topics of one partition, until it is answered. Apache Kafka "
        "is one broker.",
        metrics=(more("topics/s"),),
        cases=(Case("1,000 topics"),),
        measure=topics,
        brokers=2,
    ),
)
