"""Which brokers are suspected to be dead, and for how long."""

from random import Random

import pytest

from barnabas.base.network import Address
from barnabas.broker.cluster.suspects import DOUBTED_MS, SUSPECTED_MS, Suspects
from barnabas.replication.metadata.image import Endpoint, MetadataImage
from tests.broker.cluster.dialling import DialledNetwork
from tests.fakes import FakeClock, FakeReport, fake_environment
from tests.replication.clusters import cluster
from tests.simulation.files import SimulatedFiles


def image_of(*broker_ids: int, host: str = "broker-{}", fenced: tuple[int, ...] = ()) -> MetadataImage:
    known = cluster(*broker_ids)
    return known._replace(
        brokers={
            broker_id: broker._replace(
                endpoints={"INSIDE": Endpoint(host.format(broker_id), 9092, 0)}, fenced=broker_id in fenced
            )
            for broker_id, broker in known.brokers.items()
        }
    )


class World:
    """Broker 1, which watches broker 2."""

    def __init__(self) -> None:
        self.clock, self.network = FakeClock(), DialledNetwork()
        environment = fake_environment(SimulatedFiles(Random(1)), clock=self.clock, report=FakeReport())
        environment = environment._replace(network=self.network)  # type: ignore[arg-type]
        self.changes = 0
        self.suspects = Suspects(environment, self._changed, node_id=1, inter_broker_listener="INSIDE")

    def _changed(self) -> None:
        self.changes += 1

    @property
    def told(self) -> tuple[list[int], list[int]]:
        return sorted(self.suspects.doubted), sorted(self.suspects.suspected)

    def watch(self) -> None:
        self.suspects.follow(image_of(1, 2), ())
        self.network.last.accept()
        self.clock.advance(5_000)

    def lose(self) -> None:
        self.network.last.end()
        self.clock.advance(0)

    def suspect(self) -> None:
        self.watch()
        self.lose()
        self.network.last.refuse()
        assert self.told == ([2], [2])


def test_every_unfenced_other_broker_is_watched() -> None:
    world = World()
    world.suspects.follow(image_of(1, 2, 3, 4, fenced=(4,)), ())
    assert world.network.dialled == [Address("broker-2", 9092), Address("broker-3", 9092)]
    world.suspects.follow(image_of(1, 2, 3, 4), (4,))
    assert world.network.dialled[2:] == [Address("broker-4", 9092)]
    world.suspects.follow(image_of(1, 2, 3, 4, fenced=(2,)), (2,))
    assert [dial.is_closed for dial in world.network.dials] == [True, False, False]
    world.suspects.close()
    assert world.clock.pending_timers == 0


def test_another_machines_loopback_address_is_not_watched() -> None:
    world = World()
    away, here = image_of(1, 2), image_of(1, 2, host="127.0.0.1")
    world.suspects.follow(away._replace(brokers={1: away.brokers[1], 2: here.brokers[2]}), ())
    assert world.network.dialled == []
    world.suspects.follow(here, ())
    assert world.network.dialled == [Address("127.0.0.1", 9092)]


def test_a_broker_whose_connection_ended_is_doubted_until_it_accepts_or_refuses() -> None:
    world = World()
    world.watch()
    assert world.told == ([], [])
    world.lose()
    assert world.told == ([2], [])
    world.network.last.accept()
    assert (world.told, world.changes) == (([], []), 1)
    world.clock.advance(5_000)
    world.lose()
    world.network.last.refuse()
    assert world.told == ([2], [2])


def test_a_broker_that_neither_accepts_nor_refuses_is_not_doubted_for_long() -> None:
    world = World()
    world.watch()
    world.lose()
    world.clock.advance(DOUBTED_MS)
    assert (world.told, world.changes) == (([], []), 1)


def test_a_broker_that_was_never_reached_is_not_suspected() -> None:
    world = World()
    world.suspects.follow(image_of(1, 2), ())
    for _ in range(5):
        world.network.last.refuse()
        world.clock.advance(1_000)
    assert world.told == ([], [])


@pytest.mark.parametrize("how", ["news", "accepts", "time"])
def test_a_suspicion_ends(how: str) -> None:
    world = World()
    world.suspect()
    if how == "news":
        world.suspects.follow(image_of(1, 2, fenced=(2,)), (2,))
    elif how == "accepts":
        world.clock.advance(20)
        world.network.last.accept()
    else:
        world.clock.advance(SUSPECTED_MS)
    assert (world.told, world.changes) == (([], []), 1)


def test_a_broker_that_still_refuses_is_not_suspected_again() -> None:
    """It has not been reached since; the metadata say that it lives, and they may be right."""
    world = World()
    world.suspect()
    world.clock.advance(SUSPECTED_MS)
    world.network.last.refuse()
    assert world.told == ([], [])


def test_a_broker_that_accepts_and_hangs_up_is_dialled_less_and_less_often() -> None:
    world = World()
    world.suspects.follow(image_of(1, 2), ())
    for _ in range(100):
        if not world.network.last.is_closed:
            world.network.last.accept()
            world.network.last.end()
        world.clock.advance(100)
    assert 10 < len(world.network.dials) < 20
