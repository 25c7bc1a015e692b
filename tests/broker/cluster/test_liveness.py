"""What the end of a connection says about a broker, and what it does not."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.environment import Environment
from barnabas.base.network import READ, Address, OnEvent
from barnabas.broker.cluster.liveness import BrokerLinks
from barnabas.broker.network.session import Session
from barnabas.replication.metadata.image import BrokerImage, Endpoint, MetadataImage
from barnabas.replication.quorum.voters import Address as ControllerAddress
from tests.fakes import FakeClock, FakeReport, fake_environment
from tests.replication.clusters import cluster, registration, uuid
from tests.simulation.files import SimulatedFiles


class Dialled:
    """A connection that is refused, or that stands and says nothing, as soon as somebody looks at it."""

    def __init__(self, *, is_refused: bool) -> None:
        self._is_refused = is_refused
        self.on_event: OnEvent | None = None

    def watch(self, _events: int, on_event: OnEvent) -> None:
        self.on_event = on_event

    def receive_into(self, _buffer: memoryview) -> int:
        raise ConnectionRefusedError if self._is_refused else BlockingIOError

    def close(self) -> None: ...


class Network:
    def __init__(self) -> None:
        self.is_refused = True
        self.dialled: list[Address] = []
        self._dials: list[Dialled] = []

    def connect(self, address: Address) -> Any:
        self.dialled.append(address)
        self._dials.append(Dialled(is_refused=self.is_refused))
        return self._dials[-1]

    def answer(self) -> None:
        for dial in self._dials:
            assert dial.on_event is not None
            dial.on_event(READ)
        self._dials.clear()


class World:
    """An active controller, node 1, whose broker 2 reports on one connection."""

    def __init__(self, *endpoints: tuple[str, str, int], controller_host: str = "10.0.0.1") -> None:
        known = cluster(1, 2)
        broker: BrokerImage = known.brokers[2]._replace(
            endpoints={name: Endpoint(host, port, 0) for name, host, port in endpoints}
        )
        self.image: MetadataImage = known._replace(brokers={**known.brokers, 2: broker})
        self.ended: list[int] = []
        self.network = Network()
        self.clock = FakeClock()
        quorum: Any = SimpleNamespace(
            loader=SimpleNamespace(image=self.image),
            is_active=True,
            active_epoch=1,
            driver=SimpleNamespace(addresses=(ControllerAddress("CONTROLLER", controller_host, 9093),)),
            end_session=self.ended.append,
        )
        files = SimulatedFiles(Random(1))
        environment: Environment = fake_environment(files, clock=self.clock, report=FakeReport())
        environment = environment._replace(network=self.network)  # type: ignore[arg-type]
        self.links = BrokerLinks(quorum, environment, node_id=1, inter_broker_listener="INSIDE")
        self.session = Session(listener="CONTROLLER", local=("10.0.0.1", 9093), peer=("10.0.0.2", 40_000))
        self.links.heard(2, self.session)

    def hang_up(self) -> None:
        assert self.session.on_hangup is not None
        self.session.on_hangup()
        self.network.answer()


def test_a_broker_that_hung_up_and_whose_address_refuses_is_dead() -> None:
    world = World(("PLAINTEXT", "broker-2", 9092))
    world.hang_up()
    assert world.ended == [2]


def test_a_broker_whose_address_answers_may_live() -> None:
    world = World(("PLAINTEXT", "broker-2", 9092))
    world.network.is_refused = False
    world.hang_up()
    assert (world.network.dialled, world.ended) == ([Address("broker-2", 9092)], [])


def test_the_address_that_brokers_use_is_dialled_and_not_that_of_some_clients() -> None:
    world = World(("HOST", "localhost", 29092), ("INSIDE", "broker-2", 19092))
    world.hang_up()
    assert world.network.dialled == [Address("broker-2", 19092)]


@pytest.mark.parametrize(
    ("controller_host", "ended"),
    [
        ("10.0.0.1", []),  # another machine's localhost says nothing
        ("127.0.0.1", [2]),  # the whole cluster is on one machine
    ],
)
def test_a_loopback_address_counts_on_the_same_machine_only(controller_host: str, ended: list[int]) -> None:
    world = World(("PLAINTEXT", "localhost", 9092), controller_host=controller_host)
    world.hang_up()
    assert world.ended == ended
    assert bool(world.network.dialled) == bool(ended)


def test_a_broker_that_reports_again_before_the_answer_lives() -> None:
    world = World(("PLAINTEXT", "broker-2", 9092))
    assert world.session.on_hangup is not None
    world.session.on_hangup()
    world.links.heard(2, Session(listener="CONTROLLER", local=("10.0.0.1", 9093), peer=("10.0.0.2", 40_001)))
    world.network.answer()
    assert world.ended == []


def test_a_new_controller_dials_who_has_not_reported_once() -> None:
    world = World(("PLAINTEXT", "broker-2", 9092))
    world.links.dial_silent()
    assert world.network.dialled == [], "broker 2 reports"
    silent = World(("PLAINTEXT", "broker-2", 9092))
    silent.links._links.clear()
    silent.links.dial_silent()
    silent.links.dial_silent()
    assert silent.network.dialled == [Address("broker-2", 9092)]


@pytest.mark.parametrize(
    ("is_linked", "port", "ended"),
    [
        (False, 9092, [2]),  # it listens where the dead one did
        (True, 9092, []),  # the other one reports
        (False, 9999, []),  # it is somewhere else: only one of them may be broker 2
    ],
)
def test_a_successor_at_the_same_address_need_not_wait(is_linked: bool, port: int, ended: list[int]) -> None:
    world = World(("PLAINTEXT", "broker-2", port))
    if not is_linked:
        world.links._links.clear()
    request = registration(2, incarnation_id=uuid(77))
    for listener in request.listeners:
        listener.name, listener.host, listener.port = "PLAINTEXT", "broker-2", 9092
    world.links.registers(request)
    assert world.ended == ended
