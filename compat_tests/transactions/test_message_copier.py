"""Kafka's TransactionalMessageCopier, with copiers or the broker stopped and killed under it: the copy is exact.

COPIER_MESSAGES says how many records each run copies.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Queue
from subprocess import Popen

import pytest

from compat_tests.brokers import JVM_OPTIONS, KAFKA_LIBS, running
from compat_tests.conftest import Drivers, Restartable
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.groups import eventually
from compat_tests.harness.transactions import READ_COMMITTED

MESSAGES = int(os.environ.get("COPIER_MESSAGES", "10000"))
PARTITIONS = 2
INTERRUPTIONS = 3
TRANSACTION_SIZE = max(100, MESSAGES // 100)
TRANSACTION_TIMEOUT_MS = 10_000
"""A copier asks for its offsets before it takes over its transactional id, so what the last one had open when it was
killed has to time out. The default is a minute, after which Java gives up."""
COPY_SECONDS = 120 + MESSAGES // 1_000
TOOL = ("java", *JVM_OPTIONS, "-cp", f"{KAFKA_LIBS}/*", "org.apache.kafka.tools.TransactionalMessageCopier")


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path_factory.mktemp("copier"))
    with restartable.running:
        yield restartable


class Copier:
    """One of them; it has the same transactional id whenever it is started again."""

    def __init__(self, folder: Path, command: list[str], number: int) -> None:
        self.folder = folder
        self.command = command
        self.number = number
        self.starts = 0
        self.stack = ExitStack()
        self.process: Popen[str] | None = None
        self.lines: Queue[str | None] = Queue()
        self.start()

    def start(self) -> None:
        self.starts += 1
        log = self.folder / f"copier-{self.number}-{self.starts}.log"
        self.process, self.lines = self.stack.enter_context(running(self.command, log, cwd=self.folder))

    @property
    def is_done(self) -> bool:
        assert self.process is not None
        if self.process.poll() is None:
            return False
        assert self.process.returncode == 0, f"copier {self.number} ended with {self.process.returncode}"
        return True

    def wait_for_progress(self) -> None:
        """Waits until it has committed something since it was started, or has ended."""
        while (line := self.lines.get(timeout=COPY_SECONDS)) is not None:
            if '"ProcessLoop"' in line:
                return

    def restart(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=60)
        self.start()


def command(bootstrap: str, name: str, partition: int, *, group_metadata: bool) -> list[str]:
    options = {
        "--broker-list": bootstrap,
        "--input-topic": f"{name}-source",
        "--input-partition": str(partition),
        "--output-topic": f"{name}-target",
        "--consumer-group": name,
        "--transactional-id": f"{name}-{partition}",
        "--transaction-size": str(TRANSACTION_SIZE),
        "--transaction-timeout": str(TRANSACTION_TIMEOUT_MS),
    }
    switches = ["--group-mode", "--use-group-metadata"] if group_metadata else []
    return [*TOOL, "--enable-random-aborts", *switches, *(word for option in options.items() for word in option)]


def values(partition: int) -> list[bytes]:
    return [b"%d of %d" % (number, partition) for number in range(MESSAGES // PARTITIONS)]


@pytest.mark.timeout(COPY_SECONDS * 3)
@pytest.mark.parametrize("group_metadata", [False, True], ids=["partitions", "group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("target", ["copiers", "broker"])
def test_a_copy_is_exact_whatever_is_interrupted(
    restartable: Restartable,
    drivers: Drivers,
    tmp_path: Path,
    target: str,
    number: signal.Signals,
    group_metadata: bool,
) -> None:
    name = f"{target}-{number.name}-{'group' if group_metadata else 'partitions'}"
    bootstrap = restartable.broker.bootstrap
    driver = drivers["confluent-kafka"].at(bootstrap)
    for topic in (f"{name}-source", f"{name}-target"):
        driver.ask("create_topic", topic=topic, partitions=PARTITIONS, configs={})
    for partition in range(PARTITIONS):
        driver.produce(f"{name}-source", [Record(value=value, partition=partition) for value in values(partition)])
    with ExitStack() as stack:
        copiers = [
            Copier(tmp_path, command(bootstrap, name, partition, group_metadata=group_metadata), partition)
            for partition in range(PARTITIONS)
        ]
        for copier in copiers:
            stack.push(copier.stack)
        for _ in range(INTERRUPTIONS):
            for copier in copiers:
                copier.wait_for_progress()
            if target == "broker":
                restartable.restart(number)
            else:
                for copier in copiers:
                    copier.restart(number)
        eventually(lambda: all(copier.is_done for copier in copiers), "everything is copied", seconds=COPY_SECONDS)
    check(driver, f"{name}-target")


def check(driver: Driver, topic: str) -> None:
    """A last record in each partition says that nothing comes after what was copied."""
    end = [Record(value=b"end", partition=partition) for partition in range(PARTITIONS)]
    driver.produce(topic, end)
    count = MESSAGES // PARTITIONS * PARTITIONS + PARTITIONS
    read = driver.consume(
        topic, count, partitions=range(PARTITIONS), isolation=READ_COMMITTED, timeout_ms=COPY_SECONDS * 1_000
    )
    for partition in range(PARTITIONS):
        found = [record.value for record in read if record.partition == partition]
        assert found == [*values(partition), b"end"]
