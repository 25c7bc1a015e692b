"""Which brokers are suspected to be dead, and for how long."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.base.network import Address
from barnabas.broker.cluster.inter_broker import WATCHER
from barnabas.broker.cluster.suspects import DOUBTED_MS, SUSPECTED_MS, Suspects
from barnabas.broker.network.session import Session
from barnabas.replication.metadata.image import Endpoint, MetadataImage
from tests.broker.cluster.dialling import Dialled, DialledNetwork
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
        self.answer()
        self.clock.advance(5_000)

    def answer(self) -> None:
        self.network.last.accept()
        self.network.last.answer()

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


def test_a_broker_whose_connection_ended_is_doubted_until_it_answers_or_refuses() -> None:
    world = World()
    world.watch()
    assert world.told == ([], [])
    world.lose()
    assert world.told == ([2], [])
    world.network.last.accept()
    assert world.told == ([2], []), "its listener may be closed last of all"
    world.network.last.answer()
    assert (world.told, world.changes) == (([], []), 1)
    world.clock.advance(5_000)
    world.lose()
    world.network.last.refuse()
    assert world.told == ([2], [2])


def test_a_broker_that_accepts_hangs_up_and_refuses_then_is_suspected() -> None:
    world = World()
    world.watch()
    world.lose()
    world.network.last.accept()
    world.network.last.end()
    world.clock.advance(20)
    world.network.last.refuse()
    assert world.told == ([2], [2])


def test_a_broker_that_neither_answers_nor_refuses_is_not_doubted_for_long() -> None:
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
    world.suspects.lost(2)
    assert world.told == ([], [])


@pytest.mark.parametrize("how", ["news", "answers", "time"])
def test_a_suspicion_ends(how: str) -> None:
    world = World()
    world.suspect()
    if how == "news":
        world.suspects.follow(image_of(1, 2, fenced=(2,)), (2,))
    elif how == "answers":
        world.clock.advance(20)
        world.answer()
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
            world.answer()
            world.network.last.end()
        world.clock.advance(100)
    assert 10 < len(world.network.dials) < 20


# ---- the other one watches, too


def watcher(world: World, client_id: str = f"{WATCHER}2") -> Session:
    session = Session(listener="INSIDE", local=("broker-1", 9092), peer=("10.0.0.2", 40_000))
    world.suspects.watched_by(client_id, session)
    return session


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (Dialled.refuse, ([2], [2])),
        (Dialled.answer, ([], [])),  # somebody else has claimed to be broker 2, or it does not watch any more
    ],
)
def test_a_broker_that_ends_the_connection_on_which_it_watches_is_dialled(
    happens: Callable[[Dialled], None], told: tuple[list[int], list[int]]
) -> None:
    world = World()
    world.watch()
    session = watcher(world)
    assert session.on_hangup is not None
    session.on_hangup()
    assert world.told == ([2], [])
    if happens is Dialled.answer:
        world.network.last.accept()
    happens(world.network.last)
    assert world.told == told
    assert not world.network.dials[0].is_closed, "that this broker watches goes on"


def test_a_stranger_that_hangs_up_says_nothing() -> None:
    world = World()
    world.watch()
    assert watcher(world, f"{WATCHER}x").on_hangup is None
    unknown = watcher(world, f"{WATCHER}7")
    assert unknown.on_hangup is not None
    unknown.on_hangup()
    assert (world.told, len(world.network.dials)) == (([], []), 1)


def test_what_is_being_found_out_at_the_end_is_given_up() -> None:
    world = World()
    world.watch()
    world.suspects.lost(2)
    world.suspects.close()
    assert all(dial.is_closed for dial in world.network.dials)
    assert world.clock.pending_timers == 0
