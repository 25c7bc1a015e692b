"""What a connection says about whether a process is there."""

import errno
from collections.abc import Callable, Iterator
from random import Random

import pytest

from barnabas.base.network import Address
from barnabas.broker.cluster.probe import REPLY_MS, Outcome, Probe
from tests.broker.cluster.dialling import DialledNetwork
from tests.fakes import FakeClock, FakeReport, fake_environment
from tests.simulation.files import SimulatedFiles


class World:
    def __init__(self) -> None:
        self.clock, self.network = FakeClock(), DialledNetwork()
        environment = fake_environment(SimulatedFiles(Random(1)), clock=self.clock, report=FakeReport())
        environment = environment._replace(network=self.network)  # type: ignore[arg-type]
        self.outcomes: list[Outcome] = []
        self.probe = Probe(environment, Address("broker-2", 9092), self.outcomes.append)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    assert all(dial.is_closed for dial in world.network.dials)
    assert world.clock.pending_timers == 0


def refuses(world: World) -> None:
    world.network.last.refuse()


def answers(world: World) -> None:
    world.network.last.accept()
    assert world.network.last.sent, "it was asked for its versions"
    world.network.last.answer()


def accepts_and_is_silent(world: World) -> None:
    world.network.last.accept()
    world.clock.advance(REPLY_MS)


def is_silent(world: World) -> None:
    world.clock.advance(REPLY_MS)


def has_no_route(world: World) -> None:
    world.network.last.fail(OSError(errno.EHOSTUNREACH, "no route"))
    assert world.outcomes == [], "it may come back"
    world.clock.advance(REPLY_MS)


def hangs_up_and_refuses_then(world: World) -> None:
    """As a process does that is being taken apart."""
    world.network.last.accept()
    world.network.last.end()
    world.clock.advance(20)
    world.network.last.refuse()


def always_hangs_up(world: World) -> None:
    """As something does that stands in front of a broker which is not there."""
    while not world.outcomes:
        world.network.last.accept()
        world.network.last.end()
        world.clock.advance(100)


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        (refuses, Outcome.REFUSED),
        (answers, Outcome.UNCLEAR),
        (accepts_and_is_silent, Outcome.UNCLEAR),
        (is_silent, Outcome.UNREACHABLE),
        (has_no_route, Outcome.UNREACHABLE),
        (hangs_up_and_refuses_then, Outcome.REFUSED),
        (always_hangs_up, Outcome.UNCLEAR),
    ],
)
def test_what_an_address_says(world: World, happens: Callable[[World], None], outcome: Outcome) -> None:
    happens(world)
    assert world.outcomes == [outcome]


def test_a_probe_that_was_cancelled_says_nothing(world: World) -> None:
    world.probe.cancel()
    world.clock.advance(10 * REPLY_MS)
    assert world.outcomes == []
