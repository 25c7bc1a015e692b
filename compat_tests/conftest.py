"""One broker and one process per client for all tests of a worker; topics keep the tests apart."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from compat_tests.brokers import BROKER, BROKERS, KAFKA_LIBS, Broker
from compat_tests.harness.clients import CLIENTS, VERIFIABLE_CONSUMER, names
from compat_tests.harness.driver import Driver, missing
from compat_tests.harness.features import RECORDS, TOPICS
from compat_tests.harness.groups import Group, Topic

# Some compare one broker with one, whatever is under test, and one compares clusters.
NOT_OF_THIS = {
    "barnabas": ["cluster"],
    "barnabas-cluster": ["differential", "files", "test_tools_compared.py"],
}
collect_ignore = NOT_OF_THIS.get(BROKER, [])

SETTINGS = {
    "message.max.bytes": str(12 * 1024 * 1024),  # the limit that a user raises to send records of 10 MB
    # Groups agree within tenths of a second; members that are killed are missed after a second or two.
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "150",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def require(needs: Iterable[str | Path]) -> None:
    """Skips where a component is missing; on a build machine that is a failure, so that nothing is skipped unseen."""
    reason = missing(needs)
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


@contextmanager
def start_broker(folder: Path, port: int = 0, settings: dict[str, str] | None = None) -> Iterator[Broker]:
    if BROKER == "kafka":
        require(("java", KAFKA_LIBS))
    with BROKERS[BROKER](folder, {**SETTINGS, **(settings or {})}, port) as broker:
        yield broker


class Restartable:
    """A broker whose folder and port outlive its processes."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = settings
        self.running = ExitStack()
        self.broker = self._start(0)

    def _start(self, port: int) -> Broker:
        return self.running.enter_context(start_broker(self.folder, port, self.settings))

    def restart(self, number: signal.Signals) -> None:
        self.stop(number)
        self.start()

    def stop(self, number: signal.Signals) -> None:
        self.broker.send_signal(number)
        self.running.close()

    def start(self) -> None:
        self.broker = self._start(self.broker.port)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with start_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker
        assert broker.process.poll() is None, "the broker ended during the tests"


class Drivers:
    """The drivers by the name of their client, created when first asked for."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.made: dict[str, Driver] = {}
        self.count = 0

    def __getitem__(self, name: str) -> Driver:
        if name not in self.made:
            self.made[name] = self.another(name)
        return self.made[name]

    def another(self, name: str, bootstrap: str | None = None) -> Driver:
        """Returns a driver in a process of its own, which the caller ends."""
        client = next(client for client in (*CLIENTS, VERIFIABLE_CONSUMER) if client.name == name)
        require(client.needs)
        self.count += 1
        return Driver(client, bootstrap or self.bootstrap, self.folder / f"{name}-{self.count}.log")

    def stop(self) -> None:
        for driver in self.made.values():
            driver.stop()


@pytest.fixture(scope="session")
def drivers(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    drivers = Drivers(broker.bootstrap, tmp_path_factory.mktemp("drivers"))
    try:
        yield drivers
    finally:
        drivers.stop()


@pytest.fixture(params=names(RECORDS))
def client(request: pytest.FixtureRequest, drivers: Drivers) -> Driver:
    """Returns every client in turn."""
    return drivers[request.param]


@pytest.fixture(params=names(TOPICS))
def admin(request: pytest.FixtureRequest, drivers: Drivers) -> Driver:
    """Returns every client that can create and describe, in turn."""
    return drivers[request.param]


@pytest.fixture(scope="session")
def now_ms() -> int:
    """Returns one time for the whole run: older timestamps would fall to the retention of a week."""
    return int(time.time() * 1000) - 3_600_000


@pytest.fixture
def group(request: pytest.FixtureRequest, drivers: Drivers) -> Iterator[Group]:
    """Creates a group for this test alone; members that are still in it afterwards leave."""
    group = Group(drivers.__getitem__, own_name(request))
    yield group
    group.leave()


@pytest.fixture
def topic(request: pytest.FixtureRequest, drivers: Drivers) -> Topic:
    """Creates a topic for this test alone."""
    return Topic(drivers["kafka-python-3"], own_name(request))


@pytest.fixture
def another(drivers: Drivers) -> Iterator[Callable[[str], Driver]]:
    """Returns drivers beside the shared ones, to be killed."""
    made: list[Driver] = []

    def make(name: str) -> Driver:
        made.append(drivers.another(name))
        return made[-1]

    yield make
    for driver in made:
        driver.stop()


def own_name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", request.node.name).strip("-")
