"""What Barnabas sets out to reach, judged by the figures of one run: each goal names the figure that decides it."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.results import ENOUGH_SAMPLES, Figure, Run

OURS, THEIRS = "barnabas", "kafka"
DEEP = "16 connections, 64 in flight"


@dataclass(frozen=True)
class Goal:
    title: str
    scenario: str
    case: str
    metric: str
    bound: float
    kind: str  # a key of KINDS
    case_before: str = ""  # for "times another case"
    scenario_before: str = ""  # for "times another scenario"


@dataclass(frozen=True)
class Judgement:
    goal: Goal
    found: str
    holds: bool | None  # None: not measured
    within_noise: bool = False  # other samples of the same run would have it the other way
    samples: int = 0

    @property
    def verdict(self) -> str:
        if self.holds is None:
            return "not measured"
        noise = ", within noise" if self.within_noise else ""
        few = f", n={self.samples}" if self.samples < ENOUGH_SAMPLES else ""
        return f"{'yes' if self.holds else 'NO'}{noise}{few}"


def _figure(run: Run, goal: Goal, system: str, case: str = "") -> Figure | None:
    result = run.case(goal.scenario, case or goal.case)
    return result.figure(goal.metric, system) if result else None


def _own(run: Run, goal: Goal) -> Figure | None:
    return _figure(run, goal, OURS)


def _against_kafka(run: Run, goal: Goal) -> Figure | None:
    return _quotient(_figure(run, goal, OURS), _figure(run, goal, THEIRS))


def _faster_than_kafka(run: Run, goal: Goal) -> Figure | None:
    return _quotient(_figure(run, goal, THEIRS), _figure(run, goal, OURS))


def _against_case(run: Run, goal: Goal) -> Figure | None:
    return _quotient(_figure(run, goal, OURS), _figure(run, goal, OURS, goal.case_before))


def _against_scenario(run: Run, goal: Goal) -> Figure | None:
    before = run.case(goal.scenario_before, goal.case)
    return _quotient(_figure(run, goal, OURS), before.figure(goal.metric, OURS) if before else None)


def _quotient(above: Figure | None, below: Figure | None) -> Figure | None:
    """Returns the quotient of the medians, and of any two samples at worst and at best."""
    if above is None or below is None or not below.least:
        return None
    least, most = above.least / below.most, above.most / below.least
    return Figure(above.median / below.median, least, most, min(above.count, below.count))


@dataclass(frozen=True)
class Kind:
    figure: Callable[[Run, Goal], Figure | None]
    at_least: bool
    shown: str


KINDS = {
    "at most": Kind(_own, False, "{:.3g}"),
    "at least": Kind(_own, True, "{:,.0f}"),
    "GB/s, at least": Kind(_own, True, "{:.2f}"),
    "times Kafka's, at least": Kind(_against_kafka, True, "{:.2f}× Kafka's"),
    "times Kafka's, at most": Kind(_against_kafka, False, "{:.2f}× Kafka's"),
    "times faster than Kafka, at least": Kind(_faster_than_kafka, True, "{:.1f}× faster"),
    "times another case, at most": Kind(_against_case, False, "{:.2f}×"),
    "times another scenario, at least": Kind(_against_scenario, True, "{:.2f}×"),
}

GOALS = (
    Goal("start to the first answer ≤ 120 ms", "start", "empty", "start ms", 120, "at most"),
    Goal("… and ≥ 20× faster than Kafka", "start", "empty", "start ms", 20, "times faster than Kafka, at least"),
    Goal("memory idle ≤ 40 MB", "memory", "idle", "RSS MB", 40, "at most"),
    Goal("memory after 3 GB ≤ 80 MB", "memory", "after 3 GB", "RSS MB", 80, "at most"),
    Goal(
        "produce 1 KB ≥ 1.5× Kafka's MB/s", "throughput", "1 KB, none", "produce MB/s", 1.5, "times Kafka's, at least"
    ),
    Goal("… at ≤ 0.9 CPU s/GB", "throughput", "1 KB, none", "produce CPU s/GB", 0.9, "at most"),
    Goal("produce 1 KB lz4 at ≤ 0.3 CPU s/GB", "throughput", "1 KB, lz4", "produce CPU s/GB", 0.3, "at most"),
    Goal("produce 100 B ≥ Kafka's", "throughput", "100 B, none", "produce MB/s", 1.0, "times Kafka's, at least"),
    Goal("… at ≤ half its CPU", "throughput", "100 B, none", "produce CPU s/GB", 0.5, "times Kafka's, at most"),
    Goal("consume 1 KB at ≤ 0.6 CPU s/GB", "fetch", "1 KB", "CPU s/GB", 0.6, "at most"),
    Goal("… and ≥ 2× Kafka's MB/s", "fetch", "1 KB", "MB/s", 2, "times Kafka's, at least"),
    Goal(
        "one-record requests, 16 connections, 64 in flight, at ≤ 15 CPU µs",
        "requests",
        DEEP,
        "CPU µs/request",
        15,
        "at most",
    ),
    Goal("… and ≥ 60,000/s", "requests", DEEP, "requests/s", 60_000, "at least"),
    Goal("one record at a time, p50 ≤ 0.25 ms", "latency", "one at a time", "p50 ms", 0.25, "at most"),
    Goal("… p99 ≤ half of Kafka's", "latency", "one at a time", "p99 ms", 0.5, "times Kafka's, at most"),
    Goal("fsync, 128 producers ≥ 100,000 acks/s", "fsync", "128 producers", "acks/s", 100_000, "at least"),
    Goal("… p50 ≤ 1.5 ms", "fsync", "128 producers", "p50 ms", 1.5, "at most"),
    Goal(
        *("a request among 1,000 connections ≤ 1.3× one among 10", "scaling", "1,000 connections", "CPU µs/request"),
        *(1.3, "times another case, at most", "10 connections"),
    ),
    Goal(
        *(
            "a request among 10,000 partitions ≤ 1.3× one among 10",
            "many-partitions",
            "10,000 partitions",
            "CPU µs/request",
        ),
        *(1.3, "times another case, at most", "10 partitions"),
    ),
    Goal("three brokers ready ≤ 500 ms", "cluster-start", "empty", "start ms", 500, "at most"),
    Goal("… memory of all idle ≤ 90 MB", "cluster-start", "empty", "RSS MB", 90, "at most"),
    Goal("… CPU of all idle ≤ 0.5 %", "cluster-start", "empty", "CPU %", 0.5, "at most"),
    Goal(
        *("two brokers: one-record requests ≥ 1.6× one broker's", "two-brokers-requests", DEEP, "requests/s"),
        *(1.6, "times another scenario, at least"),
        scenario_before="one-broker-requests",
    ),
    Goal(
        *("two brokers: consume over 16 connections ≥ Kafka's", "two-brokers-consume", "16 connections", "MB/s"),
        *(1.0, "times Kafka's, at least"),
    ),
    Goal(
        *("two brokers: creating 1,000 topics ≥ Kafka's rate", "two-brokers-topics", "1,000 topics", "topics/s"),
        *(1.0, "times Kafka's, at least"),
    ),
    Goal(
        *("three replicas: produce 1 KB ≥ 2.5× Kafka's MB/s", "replicas-produce", "1 KB, none", "produce MB/s"),
        *(2.5, "times Kafka's, at least"),
    ),
    Goal(
        *("… at ≤ a fifth of its CPU", "replicas-produce", "1 KB, none", "produce CPU s/GB"),
        *(0.2, "times Kafka's, at most"),
    ),
    Goal("… and ≤ 4 CPU s/GB", "replicas-produce", "1 KB, none", "produce CPU s/GB", 4, "at most"),
    Goal("… memory of all afterwards ≤ 180 MB", "replicas-produce", "1 KB, none", "RSS MB", 180, "at most"),
    Goal(
        "three replicas: one record at a time, p50 ≤ 0.5 ms",
        "replicas-latency",
        "one at a time",
        "p50 ms",
        0.5,
        "at most",
    ),
    Goal("… and not above Kafka's", "replicas-latency", "one at a time", "p50 ms", 1.0, "times Kafka's, at most"),
    Goal("… p99 ≤ a third of Kafka's", "replicas-latency", "one at a time", "p99 ms", 0.333, "times Kafka's, at most"),
    Goal("three replicas: one-record requests ≥ 25,000/s", "replicas-requests", DEEP, "requests/s", 25_000, "at least"),
    Goal(
        *("… among 1,000 partitions ≤ 1.3× among 10", "replicas-requests", "1,000 partitions", "CPU µs/request"),
        *(1.3, "times another case, at most", "10 partitions"),
    ),
    Goal(
        *("a new replica of 10 GB catches up at ≥ Kafka's rate", "replicas-catch-up", "10 GB", "MB/s"),
        *(1.0, "times Kafka's, at least"),
    ),
    Goal("… and writers' p99 meanwhile ≤ 2×", "replicas-catch-up", "10 GB", "times p99 before", 2, "at most"),
    Goal("a leader is killed: no ack for ≤ 0.5 s", "failover", "killed", "longest gap s", 0.5, "at most"),
    Goal(
        *("a transaction of one record, V1: commits/s ≥ Kafka's", "transactions", "V1, 1 record", "commits/s"),
        *(1.0, "times Kafka's, at least"),
    ),
    Goal("… V2", "transactions", "V2, 1 record", "commits/s", 1.0, "times Kafka's, at least"),
    Goal(
        "three replicas: a transaction of one record, V1, p50 ≤ half of Kafka's",
        *("replicas-transactions", "V1, 1 record", "transaction p50 ms"),
        *(0.5, "times Kafka's, at most"),
    ),
    Goal("… V2", "replicas-transactions", "V2, 1 record", "transaction p50 ms", 0.5, "times Kafka's, at most"),
    Goal("recovery scan ≥ 0.5 GB/s", "scan", "10 GB", "scan GB/s", 0.5, "GB/s, at least"),
)


def judge(run: Run) -> list[Judgement]:
    return [_judged(goal, KINDS[goal.kind], KINDS[goal.kind].figure(run, goal)) for goal in GOALS]


def _judged(goal: Goal, kind: Kind, figure: Figure | None) -> Judgement:
    if figure is None:
        return Judgement(goal, "", None)
    holds = figure.median >= goal.bound if kind.at_least else figure.median <= goal.bound
    within_noise = figure.least < goal.bound < figure.most
    return Judgement(goal, kind.shown.format(figure.median), holds, within_noise, figure.count)
