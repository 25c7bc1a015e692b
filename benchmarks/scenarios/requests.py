"""Produce requests by hand: what one costs, how many go through, how that changes with connections and partitions."""

import math

from benchmarks.bench import Bench, client_cores, mb_per_s, per_gb, us_per_request
from benchmarks.generator import Outcome
from benchmarks.scenario import Case, Figures, Scenario, less, more, unjudged


def one_record(bench: Bench, case: Case) -> Figures:
    partitions = case.options.get("partitions", 4)
    topic = bench.topic(partitions)
    bench.settle(100e6)
    options = {"connections": case.options["connections"], "in_flight": case.options["in_flight"]}
    length = {"milliseconds": bench.scaled(1500, at_least=50)}
    before = partitions * options["connections"] // math.gcd(partitions, options["connections"])
    produced = bench.load("produce", topic=topic, partitions=partitions, before=before, **options, **length)
    bench.read_back(topic, partitions, produced)
    return {
        "requests/s": produced["requests"] / produced["seconds"],
        "CPU µs/request": us_per_request(produced),
        "client cores": client_cores(produced),
    }


def batches(bench: Bench, case: Case) -> Figures:
    connections, topic = case.options["connections"], bench.topic(4)
    bench.settle(300e6)
    length = {"requests": bench.scaled(20_000, at_least=8), "records": 16, "record_bytes": 1000}
    ways = {"connections": connections, "in_flight": max(4, connections)}
    produced = bench.load("produce", topic=topic, partitions=4, **length, **ways)
    bench.read_back(topic, 4, produced)
    consumed = read_by(bench, topic, connections, produced)
    return {
        "produce MB/s": mb_per_s(produced),
        "produce CPU s/GB": per_gb(produced),
        "produce client cores": client_cores(produced),
        "consume MB/s": mb_per_s(consumed),
        "consume CPU s/GB": per_gb(consumed),
        "consume client cores": client_cores(consumed),
    }


def read_by(bench: Bench, topic: str, connections: int, produced: Outcome) -> Outcome:
    """Lets each connection read all that there is. One alone reads to the end; many begin again there until they are
    stopped, because those that are done would leave the others more than their share."""
    reading = {"topic": topic, "partitions": 4, "readers": connections, "streams": int(produced["streams"])}
    if connections == 1:
        return bench.load("read", expect=int(produced["records"]), **reading)
    return bench.load("read", milliseconds=bench.scaled(1500, at_least=50), **reading)


REQUEST_METRICS = (more("requests/s"), less("CPU µs/request", digits=1), unjudged("client cores"))

SCENARIOS = (
    Scenario(
        name="requests",
        title="Requests of one record",
        method="Produce requests with one record of 100 B each (acks=1, 4 partitions), as many in flight as said; "
        "CPU is the broker's. Read back and checked afterwards.",
        metrics=REQUEST_METRICS,
        cases=(
            Case("1 connection, 1 in flight", {"connections": 1, "in_flight": 1}),
            Case("16 connections, 16 in flight", {"connections": 16, "in_flight": 16}),
            Case("16 connections, 64 in flight", {"connections": 16, "in_flight": 64}, quick=True),
            Case("128 connections, 128 in flight", {"connections": 128, "in_flight": 128}),
        ),
        measure=one_record,
    ),
    Scenario(
        name="connections",
        title="Batches over many connections",
        method="Produce requests with a batch of 16 records of 1 KB; 4 in flight over 1 connection, else 1 over each. "
        "Then as many connections read them all, each from the start and then again, for 1.5 s, and check every "
        "record; 1 connection does that once.",
        metrics=tuple(
            metric
            for way in ("produce", "consume")
            for metric in (more(f"{way} MB/s"), less(f"{way} CPU s/GB"), unjudged(f"{way} client cores"))
        ),
        cases=tuple(Case(f"{count} connection{'s' * (count > 1)}", {"connections": count}) for count in (1, 16, 128)),
        measure=batches,
        samples_at_most=4,
    ),
    Scenario(
        name="scaling",
        title="The cost of a request among many connections",
        method="Requests of one record, always 10 in flight, going round all connections in turn.",
        metrics=REQUEST_METRICS,
        cases=(
            Case("10 connections", {"connections": 10, "in_flight": 10, "partitions": 10}),
            Case("1,000 connections", {"connections": 1000, "in_flight": 10, "partitions": 10}),
        ),
        measure=one_record,
        samples_at_most=4,
    ),
    Scenario(
        name="many-partitions",
        title="The cost of a request among many partitions",
        method="Requests of one record over 10 connections, always 10 in flight, going round all partitions in "
        "turn, each of which was written to before. To create them takes Apache Kafka more than a minute.",
        metrics=REQUEST_METRICS,
        samples_at_most=1,
        cases=(
            Case("10 partitions", {"connections": 10, "in_flight": 10, "partitions": 10}),
            Case("10,000 partitions", {"connections": 10, "in_flight": 10, "partitions": 10_000}),
        ),
        measure=one_record,
    ),
)
