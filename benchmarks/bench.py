"""What a scenario is handed: one broker on fresh data, and ways to load it, look at it and check it."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import admin
from benchmarks.generator import Load, Outcome, loading
from benchmarks.processes import cpu_seconds, rss_mb
from benchmarks.systems import DATA, Failed, System

JAVA = Path(__file__).resolve().parent / "java"
COMPRESSED_AT_MOST = 0.8  # of the payload; a client that falls back to sending it as it is must not win


class Bench:
    def __init__(
        self,
        system: System,
        program: Path,
        folder: Path,
        scale: float,
        topic_prefix: str = "bench",
        broker: int = 0,
    ) -> None:
        """`broker`: the one of several that is loaded. Topics live on it: the generator talks to one broker."""
        self.system = system
        self.broker = broker
        self.program = program
        self.folder = folder
        self.scale = scale  # 1 in a full run; less makes every sample shorter
        self.start_seconds = 0.0
        self.topic_prefix = topic_prefix
        self.topics = 0
        self._benches = [self]

    @property
    def address(self) -> str:
        return self.system.addresses[self.broker]

    def brokers(self, count: int) -> list["Bench"]:
        """Returns this bench and others like it, for loads that go on at once: each on a broker of its own, as far as
        there are several."""
        for number in range(len(self._benches), count):
            prefix, broker = f"{self.topic_prefix}-{number}", number % len(self.system.addresses)
            self._benches.append(Bench(self.system, self.program, self.folder, self.scale, prefix, broker))
        return self._benches[:count]

    def scaled(self, amount: float, at_least: int = 1) -> int:
        return max(at_least, int(amount * self.scale))

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Creates a topic and waits for its leaders: this broker, for all partitions, because the generator talks to
        one. Underscores of the names stand for Kafka's dots."""
        if len(self.system.addresses) == 1:
            return self._create(partitions, None, configs)
        return self._create(partitions, [self._replicas(self.broker)] * partitions, configs)

    def spread_topic(self, partitions: int) -> str:
        """Creates a topic whose leaders are spread over all brokers, for clients that know where each is."""
        return self._create(partitions, [self._replicas(first) for first in range(partitions)], {})

    def _replicas(self, first: int) -> list[int]:
        """Returns the ids of the brokers that have a replica, the leader first."""
        brokers = len(self.system.addresses)
        return [(first + number) % brokers + 1 for number in range(self.system.replicas)]

    def _create(self, partitions: int, assignment: list[list[int]] | None, configs: dict[str, str]) -> str:
        self.topics += 1
        name = f"{self.topic_prefix}-{self.topics}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topic(self.address, name, partitions, settings, assignment)
        return name

    def settle(self, size_bytes: float) -> None:
        """Brings memory and unwritten pages to the same state for every system and sample."""
        os.sync()
        reserve, block = self.folder / "reserve", bytes(1 << 20)
        with reserve.open("wb") as file:
            for _ in range(0, int(size_bytes), len(block)):
                file.write(block)
        reserve.unlink()

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.system.pids())

    def rss_mb(self) -> float:
        return rss_mb(self.system.pids())

    def load(self, mode: str, **options: Any) -> Outcome:
        """Runs the generator; the outcome has the broker's CPU seconds beside its own figures."""
        with self.loading(mode, **options) as load:
            return self.measured(load.run)

    @contextmanager
    def loading(self, mode: str, **options: Any) -> Iterator[Load]:
        acks = "all" if self.system.replicas > 1 else "1"
        with loading([str(self.program), mode], {"address": self.address, "acks": acks, **options}) as load:
            yield load

    def python_load(self, client: str, mode: str, **options: Any) -> Outcome:
        command = [sys.executable, "-m", "benchmarks.python_load", client, mode]
        with loading(command, {"address": self.address, **options}) as load:
            return self.measured(load.run)

    def java_load(self, program: str, component: str, **options: Any) -> Outcome:
        """Runs a program of java/ with the client of a component, and lets it check what it did afterwards; the outcome
        has the broker's CPU seconds beside its own figures."""
        command = ["java", "-cp", str(DATA / component / "libs" / "*"), str(JAVA / f"{program}.java")]
        options = {"address": ",".join(self.system.addresses), **options}
        with loading(command, options) as load:
            outcome = self.measured(load.run)
            load.run()
            return outcome

    @contextmanager
    def spark_load(self, **options: Any) -> Iterator[Load]:
        command = [sys.executable, "-m", "benchmarks.spark_load"]
        with loading(command, {"address": self.address, "folder": self.folder, **options}) as load:
            yield load

    def measured(self, work: Callable[[], Outcome]) -> Outcome:
        used, started = self.cpu_seconds(), time.perf_counter()
        outcome = work()
        return {
            "wall_s": time.perf_counter() - started,
            **outcome,
            "cpu_s": self.cpu_seconds() - used,
        }

    def read_back(self, topic: str, partitions: int, produced: Outcome) -> None:
        """Reads every acknowledged record once, in order and unaltered, or the sample fails."""
        expected = {"expect": int(produced["records"]), "streams": int(produced["streams"])}
        self.load("read", topic=topic, partitions=partitions, **expected)

    def check_compressed(self, topic: str, payload_bytes: float) -> None:
        stored = sum(path.stat().st_size for path in self.system.log_dir().glob(f"{topic}-*/*.log"))
        if stored > payload_bytes * COMPRESSED_AT_MOST:
            raise Failed(f"{stored / payload_bytes:.0%} of the payload was stored: the client did not compress")


def per_gb(outcome: Outcome) -> float:
    return outcome["cpu_s"] / (outcome["bytes"] / 1e9)


def mb_per_s(outcome: Outcome) -> float:
    return outcome["bytes"] / 1e6 / outcome["seconds"]


def client_cores(outcome: Outcome) -> float:
    """Returns the cores that the client used. Near 1 for our one thread, or near 2 for librdkafka's, the client is the
    limit."""
    return outcome["client_cpu_s"] / outcome["seconds"]


def waits(outcome: Outcome, quantiles: Iterable[str], prefix: str = "") -> dict[str, float]:
    """Returns the quantiles by the name of the metric. The generator gives none for which it has too few samples."""
    known = {quantile: outcome.get(f"latency_ms_{quantile}") for quantile in quantiles}
    return {f"{prefix}{quantile} ms": found for quantile, found in known.items() if found is not None}


def us_per_request(outcome: Outcome) -> float:
    return outcome["cpu_s"] / outcome["requests"] * 1e6
