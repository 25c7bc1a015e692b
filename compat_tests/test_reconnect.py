"""A broker that goes away under producers and consumers: the same ones go on when it is back. Nothing is lost, and
nothing comes twice from an idempotent producer."""

import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import NamedTuple

import pytest

from compat_tests.brokers import BROKER
from compat_tests.conftest import Drivers, Restartable
from compat_tests.differential.sides import Side
from compat_tests.harness.clients import names
from compat_tests.harness.driver import Driver, Record, decoded, encoded
from compat_tests.harness.features import CLIENTS_GO_ON
from compat_tests.harness.groups import eventually

NAMES = names(CLIENTS_GO_ON)
ROUND = 50
TIMEOUT_MS = 60_000
NONE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH = 0, 6, 74


class Outage(NamedTuple):
    number: signal.Signals
    seconds: float


OUTAGES = {
    "stopped": Outage(signal.SIGTERM, 0),
    "killed": Outage(signal.SIGKILL, 0),
    # Longer than the pauses between two attempts; those who try are refused the connection.
    "away for seconds": Outage(signal.SIGKILL, 3),
}


class Stream:
    """One client's producer, its consumer, and what was acknowledged to the one and seen by the other."""

    def __init__(self, driver: Driver, outage: str) -> None:
        self.driver = driver
        self.name = f"{outage.replace(' ', '-')}-{driver.client.name}"
        self.acknowledged: list[int] = []
        self.read: list[Record] = []
        driver.ask("create_topic", topic=self.name, partitions=1, configs={})
        driver.ask("hold", name=self.name, topic=self.name, settings={})

    def send_round(self) -> None:
        first = len(self.acknowledged)
        records = [encoded(Record(value=b"%d" % number)) for number in range(first, first + ROUND)]
        answer = self.driver.ask("held_send", name=self.name, records=records, timeout_ms=TIMEOUT_MS)
        self.acknowledged += answer["offsets"]

    def send_until(self, enough: Event) -> None:
        """Sends without a pause, and twice more when there is enough."""
        while not enough.is_set():
            self.send_round()
        for _ in range(2):
            self.send_round()

    def read_what_was_acknowledged(self) -> None:
        missing = len(self.acknowledged) - len(self.read)
        answer = self.driver.ask("held_read", name=self.name, count=missing, timeout_ms=TIMEOUT_MS)
        self.read += [decoded(record) for record in answer["records"]]


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path_factory.mktemp("restartable"))
    with restartable.running:
        yield restartable


@pytest.fixture
def sides(restartable: Restartable) -> Iterator[list[Side]]:
    sides = [Side("broker", port) for port in restartable.broker.ports]
    yield sides
    for side in sides:
        side.close()


class Survivors(NamedTuple):
    outage: str
    streams: dict[str, Stream]
    sending: dict[str, "Future[None]"]


@pytest.fixture(scope="module", params=OUTAGES)
def survivors(request: pytest.FixtureRequest, restartable: Restartable, drivers: Drivers) -> Iterator[Survivors]:
    """Lets every client send while the broker goes away and until it is back: one outage is the test of them all."""
    outage = OUTAGES[request.param]
    bootstrap = restartable.broker.bootstrap
    back = Event()
    with ThreadPoolExecutor(len(NAMES)) as pool:
        opened = pool.map(lambda name: Stream(drivers[name].at(bootstrap), request.param), NAMES)
        streams = dict(zip(NAMES, opened))
        for work in (Stream.send_round, Stream.read_what_was_acknowledged):
            list(pool.map(work, streams.values()))
        before = {name: len(stream.acknowledged) for name, stream in streams.items()}
        sending = {name: pool.submit(stream.send_until, back) for name, stream in streams.items()}
        try:
            eventually(
                lambda: all(len(stream.acknowledged) > before[name] for name, stream in streams.items()),
                "everybody sends",
            )
            restartable.stop(outage.number)
            Event().wait(outage.seconds)
            restartable.start()
        finally:
            back.set()
    yield Survivors(request.param, streams, sending)
    for stream in streams.values():
        stream.driver.ask("drop", name=stream.name)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_producer_and_consumer_go_on(survivors: Survivors, name: str) -> None:
    survivors.sending[name].result()
    stream = survivors.streams[name]
    stream.read_what_was_acknowledged()
    values = [record.value for record in stream.read]
    wanted = [b"%d" % number for number in range(len(stream.acknowledged))]
    if not stream.driver.client.idempotent:  # what lost only its acknowledgement was sent again
        values = list(dict.fromkeys(values))
    assert values == wanted
    if stream.driver.client.idempotent:
        assert stream.acknowledged == [record.offset for record in stream.read] == list(range(len(wanted)))


def test_a_leader_that_crashed_leads_in_another_epoch(survivors: Survivors, sides: list[Side]) -> None:
    """So the clients above learned that the leader they knew is gone, and looked again. In a cluster, as in Kafka, a
    leader that stopped cleanly also leads in another epoch."""
    topics = [stream.name for stream in survivors.streams.values()]
    asked = {"PartitionIndex": 0, "CurrentLeaderEpoch": 0, "Timestamp": -1}
    request = {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": [asked]} for name in topics]}
    answers = [topic for side in sides for topic in side.call("ListOffsets", request)["Topics"]]
    codes = [partition["ErrorCode"] for topic in answers for partition in topic["Partitions"]]
    stays = survivors.outage == "stopped" and BROKER == "barnabas"
    of_replicas = [code for code in codes if code != NOT_LEADER_OR_FOLLOWER]  # followers know of the epoch, too
    assert len(of_replicas) >= len(topics)
    assert set(of_replicas) == {NONE if stays else FENCED_LEADER_EPOCH}
