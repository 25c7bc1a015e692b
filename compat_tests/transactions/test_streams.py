"""A Kafka Streams application that counts words with exactly_once_v2: killed in the middle, it neither loses one nor
counts one twice, though its state is kept in memory and in the broker alone."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from queue import Queue
from subprocess import Popen

import pytest

from compat_tests.brokers import CACHE, JVM_OPTIONS, KAFKA_LIBS, running
from compat_tests.conftest import Drivers, Restartable, require
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.transactions import READ_COMMITTED

CLASSES = CACHE / "driver-streams"
PARTITIONS = 2
WORDS = ("apple", "pear", "plum")
ROUNDS = 200  # of lines, in each partition, before the next interruption
READY_SECONDS = 60

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path_factory.mktemp("streams"))
    with restartable.running:
        yield restartable


class Application:
    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.folder = folder
        path = f"{CLASSES}:{CLASSES}/libs/*:{KAFKA_LIBS}/*"
        where = (bootstrap, name, f"{name}-lines", f"{name}-counts", str(folder / "state"))
        self.command = ["java", *JVM_OPTIONS, "-cp", path, "WordCount", *where]
        self.stack = ExitStack()
        self.numbers = count(1)
        self.process: Popen[str] | None = None
        self.lines: Queue[str | None] = Queue()

    def start(self) -> None:
        log = self.folder / f"application-{next(self.numbers)}.log"
        self.process, self.lines = self.stack.enter_context(running(self.command, log, cwd=self.folder))
        while (line := self.lines.get(timeout=READY_SECONDS)) is not None:
            if "state RUNNING" in line:
                return
        raise AssertionError(log.read_text()[-4000:])

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Counting:
    """The lines that were written, and the counts that have to come of them."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.name = name
        self.rounds = 0
        for topic in ("lines", "counts"):
            driver.ask("create_topic", topic=f"{name}-{topic}", partitions=PARTITIONS, configs={})

    def write(self) -> None:
        line = " ".join(WORDS).encode()
        lines = [Record(value=line, partition=partition) for partition in range(PARTITIONS)] * ROUNDS
        self.driver.produce(f"{self.name}-lines", lines)
        self.rounds += ROUNDS

    def wait_for_some(self) -> None:
        """Waits for more than what was counted of the lines before these."""
        more = PARTITIONS * len(WORDS) * (self.rounds - ROUNDS) + 1
        self.read(more)

    def read(self, wanted: int) -> list[Record]:
        return self.driver.consume(
            f"{self.name}-counts", wanted, partitions=range(PARTITIONS), isolation=READ_COMMITTED, timeout_ms=80_000
        )

    def check(self) -> None:
        per_word = PARTITIONS * self.rounds
        counts: dict[str, list[int]] = {word: [] for word in WORDS}
        for record in self.read(per_word * len(WORDS)):
            assert record.key is not None
            assert record.value is not None
            counts[record.key.decode()].append(int(record.value))
        assert counts == {word: list(range(1, per_word + 1)) for word in WORDS}


@pytest.mark.parametrize("interrupted", ["the application", "the broker"])
def test_every_word_is_counted_once(
    restartable: Restartable, drivers: Drivers, tmp_path: Path, interrupted: str
) -> None:
    require(("java", CLASSES))
    name = f"words-{interrupted.replace(' ', '-')}"
    bootstrap = restartable.broker.bootstrap
    counting = Counting(drivers["confluent-kafka"].at(bootstrap), name)
    application = Application(bootstrap, name, tmp_path)
    with application.stack:
        application.start()
        for _ in range(2):
            counting.write()
            counting.wait_for_some()
            if interrupted == "the broker":
                restartable.restart(signal.SIGKILL)
            else:
                application.kill()
                application.start()
        counting.write()
        counting.check()
