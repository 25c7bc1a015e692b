"""How long one waits: for an acknowledgement, for a record to arrive, for an fsync."""

from benchmarks.bench import Bench, us_per_request, waits
from benchmarks.generator import Outcome
from benchmarks.scenario import Case, Figures, Scenario, less, more, unjudged

QUANTILES = ("p50", "p99", "p99.9", "max")
LATE = unjudged("generator late p99 ms", digits=3)  # a late generator is not a slow broker
METRICS = (*(less(f"{quantile} ms", digits=3) for quantile in QUANTILES), LATE)


def lateness(outcome: Outcome) -> Figures:
    """Returns how late requests left; only where there is a time at which each was due."""
    return {LATE.name: outcome["late_ms_p99"]} if "late_ms_p99" in outcome else {}


def acknowledgement(bench: Bench, case: Case) -> Figures:
    topic = bench.topic(4)
    bench.settle(50e6)
    length = {"milliseconds": bench.scaled(2000, at_least=100)}
    before = {"before": bench.scaled(5000)}
    produced = bench.load("produce", topic=topic, partitions=4, **case.options["load"], **length, **before)
    bench.read_back(topic, 4, produced)
    return {**waits(produced, QUANTILES), **lateness(produced)}


def end_to_end(bench: Bench, case: Case) -> Figures:
    """Measures twice. The first time is not counted: it is the first such load that this broker sees."""
    bench.settle(50e6)
    followed(bench, case.options["rate"], bench.scaled(500, at_least=100))
    return followed(bench, case.options["rate"], bench.scaled(2000, at_least=100))


def followed(bench: Bench, rate: int, length_ms: int) -> Figures:
    topic = bench.topic(1)
    records = rate * length_ms // 1000
    reading = {"tail": 1, "expect": records, "streams": 1, "milliseconds": length_ms + 20_000}
    with (
        bench.loading("read", topic=topic, **reading) as reader,
        bench.loading("produce", topic=topic, rate=rate, milliseconds=length_ms) as writer,
    ):
        reader.go()
        written = writer.run()
        return {**waits(reader.result(), QUANTILES), **lateness(written)}


def fsync(bench: Bench, case: Case) -> Figures:
    producers, topic = case.options["producers"], bench.topic(4, flush_messages="1")
    bench.settle(50e6)
    length = {"milliseconds": bench.scaled(1500, at_least=100)}
    produced = bench.load("produce", topic=topic, partitions=4, connections=producers, **length)
    bench.read_back(topic, 4, produced)
    return {
        "acks/s": produced["requests"] / produced["seconds"],
        **waits(produced, ("p50", "p99")),
        "CPU µs/request": us_per_request(produced),
    }


def at_rate(rate: int) -> Case:
    return Case(f"{rate:,} requests/s", {"load": {"rate": rate, "connections": 16}})


SCENARIOS = (
    Scenario(
        name="latency",
        title="Latency of an acknowledgement",
        method="One record of 100 B a request, acks=1: one at a time over one connection, and at fixed rates over 16. "
        "At a fixed rate latency counts from when a request was due, however late it could leave; how late the "
        "generator itself was is shown beside it.",
        metrics=METRICS,
        cases=(
            Case("one at a time", {"load": {}}, quick=True),
            *(at_rate(rate) for rate in (500, 2_000, 8_000)),
        ),
        measure=acknowledgement,
    ),
    Scenario(
        name="end-to-end",
        title="Latency from producer to consumer",
        method="Records of 100 B at a fixed rate to one partition, and a consumer that always waits for the next; "
        "counted from when a record was due to its arrival.",
        metrics=METRICS,
        cases=tuple(Case(f"{rate:,} records/s", {"rate": rate}) for rate in (100, 2_000)),
        measure=end_to_end,
        samples_at_most=4,
    ),
    Scenario(
        name="fsync",
        title="An fsync before every acknowledgement",
        method="flush.messages=1: producers on connections of their own, each with one record of 100 B in flight.",
        metrics=(more("acks/s"), less("p50 ms", digits=3), less("p99 ms", digits=3), less("CPU µs/request", digits=1)),
        cases=tuple(
            Case(f"{count} producer{'s' * (count > 1)}", {"producers": count}, quick=count == 128)
            for count in (1, 16, 128)
        ),
        measure=fsync,
    ),
)
