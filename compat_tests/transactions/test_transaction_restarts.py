"""A broker that stops or is killed while every client is in the middle of a transaction."""

import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

from compat_tests.conftest import Drivers, Restartable
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.features import TRANSACTIONS_SURVIVE
from compat_tests.harness.groups import eventually
from compat_tests.harness.transactions import READ_COMMITTED, Transactional, stable_end

NAMES = names(TRANSACTIONS_SURVIVE)
ATTEMPTS = 3


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path_factory.mktemp("restartable"))
    with restartable.running:
        yield restartable


class Survivor:
    """One client's producer: it committed, it aborted, and it is in a transaction when the broker goes away."""

    def __init__(self, driver: Driver, ended: str) -> None:
        self.driver = driver
        self.topic = f"{ended}-{driver.client.name}"
        self.wanted = [b"committed before"]
        self.driver.ask("create_topic", topic=self.topic, partitions=1, configs={})
        self.producer = Transactional(self.driver, self.topic, self.topic, transaction_timeout_ms=300_000)
        self.producer.committed(self.topic, Record(value=b"committed before"))
        self.producer.aborted(self.topic, Record(value=b"aborted"))
        self.producer.begin()
        self.producer.send(self.topic, [Record(value=b"before")])

    def go_on(self) -> None:
        """Commits, or makes the whole transaction again, as an application does."""
        try:
            self.producer.send(self.topic, [Record(value=b"after")], timeout_ms=60_000)
            self.producer.commit()
        except DriverError:
            self._again(ATTEMPTS)
        self.wanted += [b"before", b"after"]
        self.producer.committed(self.topic, Record(value=b"committed after"))
        self.wanted.append(b"committed after")

    def _again(self, attempts: int) -> None:
        try:
            self.producer.abort()
            self.producer.committed(self.topic, Record(value=b"before"), Record(value=b"after"))
        except DriverError:
            if attempts == 1:
                raise
            self._again(attempts - 1)


class Restarted(NamedTuple):
    java: Driver
    survivors: dict[str, Survivor]
    going_on: dict[str, "Future[None]"]
    stable_before: dict[str, int]
    stable_after: dict[str, int]


@pytest.fixture(scope="module", params=[signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def restarted(
    request: pytest.FixtureRequest, restartable: Restartable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarted]:
    """Restarts the broker once for all of them; then all go on at once."""
    drivers = Drivers(restartable.broker.bootstrap, tmp_path_factory.mktemp("drivers"))
    java = drivers["java-4.3"]
    with ThreadPoolExecutor(len(NAMES)) as pool:
        opened = pool.map(lambda name: Survivor(drivers[name], request.param.name), NAMES)
        survivors = dict(zip(NAMES, opened))
        before = {name: stable_end(java, survivor.topic) for name, survivor in survivors.items()}
        restartable.restart(request.param)
        after = {name: stable_end(java, survivor.topic) for name, survivor in survivors.items()}
        going_on = {name: pool.submit(survivor.go_on) for name, survivor in survivors.items()}
    yield Restarted(java, survivors, going_on, before, after)
    drivers.stop()


@pytest.mark.parametrize("name", NAMES)
def test_a_transaction_survives_or_can_be_made_again(restarted: Restarted, name: str) -> None:
    survivor = restarted.survivors[name]
    assert restarted.stable_after[name] == restarted.stable_before[name] > 1
    restarted.going_on[name].result()
    read = survivor.driver.consume(survivor.topic, len(survivor.wanted), isolation=READ_COMMITTED)
    assert [record.value for record in read] == survivor.wanted
    end = survivor.driver.offsets(survivor.topic)["end"]
    java = restarted.java
    eventually(lambda: stable_end(java, survivor.topic) == end, "nothing is open any more")
