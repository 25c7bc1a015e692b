"""What transactions cost one producer that commits one after the other, by the rules of old clients and of new."""

from benchmarks.bench import Bench
from benchmarks.scenario import Case, Figures, Scenario, less, more

CLIENTS = {"V1": "kafka-clients-3.9.0", "V2": "kafka-4.3.0"}
"""The rules of transactions, and the component with the client that goes by them: KIP-890 came with Java 4.0."""
SHAPES = ((1, 1), (100, 1), (100, 10), (100, 50), (10_000, 1), (10_000, 10), (10_000, 50))
"""How many records a transaction has, and in how many partitions they are."""

WAITS = {"transaction": "transaction", "commit": "commit", "first send": "first_send"}
METRICS = (
    more("commits/s"),
    *(less(f"{name} {quantile} ms", digits=3) for name in WAITS for quantile in ("p50", "p99")),
    less("CPU µs/transaction", digits=0),
)


def one_after_the_other(bench: Bench, case: Case) -> Figures:
    partitions = case.options["partitions"]
    topic = bench.spread_topic(partitions) if bench.system.replicas > 1 else bench.topic(partitions)
    bench.settle(50e6)
    length = {"before": bench.scaled(1500, at_least=300), "milliseconds": bench.scaled(1500, at_least=100)}
    done = bench.java_load("Transactions", case.options["libs"], topic=topic, **case.options["load"], **length)
    return {
        "commits/s": done["transactions"] / done["seconds"],
        **{
            f"{name} {quantile} ms": done[f"{key}_ms_{quantile}"]
            for name, key in WAITS.items()
            for quantile in ("p50", "p99")
        },
        "CPU µs/transaction": done["cpu_s"] / done["transactions"] * 1e6,
    }


def case_of(rules: str, records: int, partitions: int) -> Case:
    written = "1 record" if records == 1 else f"{records:,} records, {partitions} partition{'s' * (partitions > 1)}"
    load = {"records": records, "partitions": partitions}
    options = {"libs": CLIENTS[rules], "partitions": partitions, "load": load}
    return Case(f"{rules}, {written}", options, samples_at_most=4 if records <= 100 else 2)


METHOD = (
    "A Java producer ({}) begins a transaction, waits for the acknowledgement of its first record of 100 B, sends the "
    "others round the partitions, and commits; then the next. V1 are the rules of clients before 4.0, V2 (KIP-890) "
    "those since. linger.ms is 0 for both. Everything is read back under read_committed and checked."
)

SCENARIOS = (
    Scenario(
        name="transactions",
        title="Transactions",
        method=METHOD.format("3.9.0 and 4.3.0"),
        metrics=METRICS,
        cases=tuple(case_of(rules, *shape) for rules in CLIENTS for shape in SHAPES),
        measure=one_after_the_other,
        samples_at_most=4,
    ),
    Scenario(
        name="replicas-transactions",
        title="Three replicas: transactions",
        method=METHOD.format("3.9.0 and 4.3.0") + " Leaders are spread over three brokers; min.insync.replicas is 2.",
        metrics=METRICS,
        cases=tuple(case_of(rules, *shape) for rules in CLIENTS for shape in SHAPES),
        measure=one_after_the_other,
        samples_at_most=4,
        brokers=3,
        replicas=3,
    ),
)
