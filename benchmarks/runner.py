"""Takes the samples: for each scenario the systems take turns, each time on a new broker with no data."""

import itertools
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException

from benchmarks.bench import Bench
from benchmarks.results import Run
from benchmarks.scenario import Case, Scenario
from benchmarks.systems import Failed, System

Progress = Callable[[str], None]
Work = tuple[Scenario, Case]

WINDOWS_AT_LEAST, WARM_UP_SECONDS = 2, 6.0
AGREED = 0.1  # the CPU of two loads, one after the other


@dataclass(frozen=True)
class Plan:
    scenarios: Sequence[Scenario]
    systems: Sequence[type[System]]
    samples: int
    scale: float
    quick: bool
    folder: Path
    program: Path

    def sessions(self, number: int) -> list[list[Work]]:
        """Returns the work of a round, counted from 0, by the broker that it is done on. Each scenario has its own; in
        a quick run, most of which would go by in starts, all that want the same kind of broker share one."""
        shared: dict[object, list[Work]] = {}
        for scenario in self.scenarios:
            if number >= scenario.samples_at_most:
                continue
            kind = (tuple(scenario.settings.items()), scenario.brokers, scenario.replicas, scenario.warm_up)
            broker = kind if self.quick else scenario.name
            for case in scenario.cases:
                if number < case.samples_at_most and (case.quick or not self.quick):
                    shared.setdefault(broker, []).append((scenario, case))
        return list(shared.values())


def take_samples(plan: Plan, run: Run, progress: Progress) -> None:
    """Takes one round after the other over all scenarios, so that a slow quarter of an hour hits all of them a
    little."""
    started = time.monotonic()
    rounds = [plan.sessions(number) for number in range(plan.samples)]
    in_all = sum(len(sessions) for sessions in rounds) * len(plan.systems)
    done = 0
    for number, sessions in enumerate(rounds):
        for work in sessions:
            # Who goes first changes, too: the second finds the disk as the first has left it.
            order = plan.systems if number % 2 == 0 else plan.systems[::-1]
            for system in order:
                share = f"{done * 100 // in_all:3} %, round {number + 1} of {plan.samples}"
                take_session(plan, run, work, system, partial(tell, progress, share))
                done += 1
                run.seconds = time.monotonic() - started


def tell(progress: Progress, where: str, text: str) -> None:
    progress(f"{where}, {text}")


def take_session(plan: Plan, run: Run, work: list[Work], kind: type[System], progress: Progress) -> None:
    """Does all work of a session on one broker. After a failed case the next ones get another broker."""
    while work:
        folder = plan.folder / kind.name
        first, _ = work[0]
        system = kind(folder, dict(first.settings), first.brokers, first.replicas)
        bench = Bench(system, plan.program, plan.folder, plan.scale)
        try:
            work = _measure(bench, run, work, progress)
        finally:
            system.kill()
            shutil.rmtree(folder)


def _measure(bench: Bench, run: Run, work: list[Work], progress: Progress) -> list[Work]:
    """Measures the cases, and returns those that are left for another broker."""
    name = bench.system.name
    left = list(work)
    try:
        first, _ = left[0]
        progress(f"{first.name}, {name}: starting")
        bench.system.prepare()
        bench.start_seconds = bench.system.start()
        if first.warm_up:
            progress(f"{first.name}, {name}: warming up")
            warm_up(bench)
        while left:
            scenario, case = left[0]
            progress(f"{scenario.name}, {name}: {case.name}")
            figures = scenario.measure(bench, case)
            bench.system.pids()  # a broker that died after its last answer has not won
            run.add(scenario, case, name, figures)
            left.pop(0)
    except (Failed, KafkaException, OSError) as error:
        run.fail(*left.pop(0), name, " ".join(str(error).split()))
    return left


def warm_up(bench: Bench) -> None:
    """Repeats the same load until it costs no less than before: what a broker does in its first seconds is not what it
    does all day, least of all in a JVM. The rule is the same for all systems."""
    started, before, longest = time.monotonic(), 0.0, 0.0
    for number in itertools.count():
        began = time.monotonic()
        if number >= WINDOWS_AT_LEAST and began + longest > started + WARM_UP_SECONDS * bench.scale:
            return
        used = load_a_window(bench)
        longest = max(longest, time.monotonic() - began)
        if number and abs(used - before) <= AGREED * before:
            return
        before = used


def load_a_window(bench: Bench) -> float:
    """Returns the broker's CPU seconds for some bulk in and out, and some small requests."""
    return sum(_loaded(broker) for broker in bench.brokers(len(bench.system.addresses)))


def _loaded(bench: Bench) -> float:
    topic, single = bench.topic(4), bench.topic(4)
    bulk = {"topic": topic, "partitions": 4, "records": bench.scaled(100_000, at_least=100)}
    requests = bench.scaled(20_000, at_least=100)
    return sum(
        outcome["cpu_s"]
        for outcome in (
            bench.load("produce-bulk", record_bytes=1000, **bulk),
            bench.load("consume-bulk", **bulk),
            bench.load("produce", topic=single, partitions=4, connections=16, in_flight=64, requests=requests),
        )
    )
