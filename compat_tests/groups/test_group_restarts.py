"""A broker that stops, is killed and comes back on its port: members go on, what was acknowledged stays committed."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from compat_tests.conftest import Drivers, Restartable
from compat_tests.harness.driver import DriverError
from compat_tests.harness.features import GROUPS_GO_ON, NEW_GROUPS_GO_ON
from compat_tests.harness.groups import Group, Kind, Member, Topic, classic, eventually, kinds

# Longer than any broker takes to come back, so that nobody needs to join again.
SESSION = {"session.timeout.ms": 120_000}
KINDS = kinds(GROUPS_GO_ON, NEW_GROUPS_GO_ON)


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path_factory.mktemp("restartable"))
    with restartable.running:
        yield restartable


@pytest.fixture(scope="module")
def own_drivers(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    drivers = Drivers(restartable.broker.bootstrap, tmp_path_factory.mktemp("drivers"))
    yield drivers
    drivers.stop()


def settings_of(drivers: Drivers, kind: Kind) -> dict[str, Any]:
    """Returns the settings of a group: in the consumer protocol the broker says how long a session is."""
    is_classic = "group.protocol" not in kind.settings
    return {**SESSION, **drivers[kind.client].client.settings_to_stay} if is_classic else {}


class Crowd:
    """A group of every kind on one topic, so that one restart is the test of them all."""

    def __init__(self, drivers: Drivers, name: str) -> None:
        self.admin = drivers["java-4.3"]  # it waits until the coordinator has loaded its groups
        self.topic = Topic(drivers["kafka-python-3"], name)
        self.groups = {kind: Group(drivers.__getitem__, f"{name} {kind}") for kind in KINDS}
        for kind, group in self.groups.items():
            settings = settings_of(drivers, KINDS[kind])
            for _ in range(2):
                group.join(KINDS[kind], self.topic.name, settings=settings)
        self.topic.write()
        for group in self.groups.values():
            group.wait_until_settled(self.topic.name)
        self.wait_until_all_is_read()
        self.before = {kind: group.states() for kind, group in self.groups.items()}

    def wait_until_all_is_read(self) -> None:
        for group in self.groups.values():
            group.wait_until_read(self.topic.written)
            group.wait_until_committed(self.admin, self.topic.ends())


@pytest.fixture(scope="module", params=[signal.SIGTERM, signal.SIGKILL])
def restarted(request: pytest.FixtureRequest, restartable: Restartable, own_drivers: Drivers) -> Iterator[Crowd]:
    """Restarts the broker after everything was read and committed; there is more to read after it."""
    crowd = Crowd(own_drivers, request.param.name)
    restartable.restart(request.param)
    crowd.topic.write()
    yield crowd
    for group in crowd.groups.values():
        group.leave()


@pytest.mark.parametrize("kind", KINDS)
def test_members_go_on_with_their_partitions_in_the_same_generation(restarted: Crowd, kind: str) -> None:
    group = restarted.groups[kind]
    group.wait_until_read(restarted.topic.written)
    for before, after in zip(restarted.before[kind], group.states()):
        for what in ("assignment", "member_id", "generation", "error"):
            assert after[what] == before[what], what


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_acknowledged_commit_is_lost(restartable: Restartable, own_drivers: Drivers, number: signal.Signals) -> None:
    topic = Topic(own_drivers["kafka-python-3"], f"acknowledged-{number.name}", 1)
    group = Group(own_drivers.__getitem__, topic.name)
    consumer = group.join(classic("kafka-python-3", "range"), assign=[(topic.name, 0)], commits=False)
    acknowledged: list[int] = []
    stop = Event()

    def commit(consumer: Member) -> None:
        while not stop.is_set():
            value = len(acknowledged)
            offset = {"topic": topic.name, "partition": 0, "offset": value, "metadata": "", "leader_epoch": -1}
            try:
                consumer.commit(offset)
            except DriverError:
                return  # nobody was there to acknowledge it
            acknowledged.append(value)

    with ThreadPoolExecutor() as pool:
        committing = pool.submit(commit, consumer)
        eventually(lambda: len(acknowledged) > 20, "commits are acknowledged")
        restartable.restart(number)
        stop.set()
        committing.result()
    committed = group.committed(own_drivers["java-4.3"])[topic.name, 0]
    assert committed in (acknowledged[-1], acknowledged[-1] + 1)  # the last one may have lost only its answer
    group.leave()
