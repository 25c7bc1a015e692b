"""What Python programs get: here the client is the slower part, whatever the broker."""

from benchmarks.bench import Bench
from benchmarks.scenario import Case, Figures, Scenario, less, more

CLIENTS = {"kafka-python": 6_000, "aiokafka": 6_000, "confluent-kafka": 100_000}


def measure(bench: Bench, case: Case) -> Figures:
    records = bench.scaled(case.options["records"], at_least=10)
    topic = bench.topic(1)
    produced = bench.python_load(case.name, "produce", topic=topic, records=records)
    consumed = bench.python_load(case.name, "consume", topic=topic, records=records)
    single = {"topic": bench.topic(1), "records": bench.scaled(1000, at_least=10)}
    waited = bench.python_load(case.name, "wait", **single)
    bench.python_load(case.name, "consume", **single)  # only to check: what was not stored has no latency
    return {
        "produce records/s": records / produced["seconds"],
        "consume records/s": records / consumed["seconds"],
        "send and wait p50 ms": waited["p50_ms"],
        "send and wait p99 ms": waited["p99_ms"],
    }


SCENARIOS = (
    Scenario(
        name="python-clients",
        title="Python clients",
        method="Records of 1 KB to one partition and back, with the defaults of each client; then one at a time.",
        metrics=(
            *(more(f"{what} records/s") for what in ("produce", "consume")),
            *(less(f"send and wait {quantile} ms", digits=3) for quantile in ("p50", "p99")),
        ),
        cases=tuple(Case(client, {"records": records}) for client, records in CLIENTS.items()),
        measure=measure,
        samples_at_most=2,
    ),
)
