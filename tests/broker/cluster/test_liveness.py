"""What the end of a connection says about a broker, and what it does not."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.environment import Environment
from barnabas.base.network import Address
from barnabas.broker.cluster.link_rules import SPARED_MS
from barnabas.broker.cluster.liveness import BrokerLinks
from barnabas.broker.cluster.probe import REPLY_MS
from barnabas.broker.network.session import Session
from barnabas.replication.metadata.image import BrokerImage, Endpoint, MetadataImage
from barnabas.replication.quorum.voters import Address as ControllerAddress
from tests.broker.cluster.dialling import DialledNetwork
from tests.fakes import FakeClock, FakeReport, fake_environment
from tests.replication.clusters import cluster, registration, uuid
from tests.simulation.files import SimulatedFiles


class World:
    """An active controller, node 1, whose brokers 2 to 5 report on one connection each."""

    def __init__(self, *endpoints: tuple[str, str, int], controller_host: str = "10.0.0.1") -> None:
        known = cluster(1, 2, 3, 4, 5)
        brokers: dict[int, BrokerImage] = {
            broker_id: broker._replace(endpoints={"PLAINTEXT": Endpoint(f"broker-{broker_id}", 9092, 0)})
            for broker_id, broker in known.brokers.items()
        }
        if endpoints:
            brokers[2] = brokers[2]._replace(
                endpoints={name: Endpoint(host, port, 0) for name, host, port in endpoints}
            )
        image: MetadataImage = known._replace(brokers=brokers)
        self.ended: list[int] = []
        self.network = DialledNetwork()
        self.clock = FakeClock()
        self.report = FakeReport()
        self.quorum: Any = SimpleNamespace(
            loader=SimpleNamespace(image=image),
            is_active=True,
            active_epoch=1,
            driver=SimpleNamespace(addresses=(ControllerAddress("CONTROLLER", controller_host, 9093),)),
            end_session=self.ended.append,
        )
        environment: Environment = fake_environment(
            SimulatedFiles(Random(1)), clock=self.clock, report=self.report
        )._replace(network=self.network)  # type: ignore[arg-type]
        quorum: Any = self.quorum
        self.links = BrokerLinks(quorum, environment, node_id=1, inter_broker_listener="INSIDE")
        self.counts = self.links.counts
        self.sessions: dict[int, Session] = {}
        for broker_id in (2, 3, 4, 5):
            self.report_of(broker_id)

    def epoch_of(self, broker_id: int) -> int:
        epoch: int = self.quorum.loader.image.brokers[broker_id].broker_epoch
        return epoch

    def report_of(self, broker_id: int) -> None:
        """A heartbeat on a new connection."""
        session = Session(listener="CONTROLLER", local=("10.0.0.1", 9093), peer=("10.0.0.2", 40_000))
        self.sessions[broker_id] = session
        self.links.heard(broker_id, self.epoch_of(broker_id), session)

    def hang_up(self, broker_id: int = 2) -> None:
        session = self.sessions[broker_id]
        session.has_hung_up = True
        assert session.on_hangup is not None
        session.on_hangup()

    def fence(self) -> None:
        """Fences broker 2 by rule 2."""
        self.hang_up()
        self.network.last.refuse()
        assert self.ended.pop() == 2


# ---- 1: the link


def test_only_the_connection_of_the_last_heartbeat_counts() -> None:
    world = World()
    before = world.sessions[2]
    world.report_of(2)
    assert before.on_hangup is not None
    before.on_hangup()
    assert (world.network.dialled, world.counts.closed) == ([], 0)


def test_a_link_of_an_earlier_registration_says_nothing_of_the_present_one() -> None:
    world = World()
    world.links.heard(2, world.epoch_of(2) - 1, world.sessions[2])
    world.hang_up()
    assert (world.network.dialled, world.counts.closed) == ([], 1)


def test_a_broker_that_hung_up_before_its_heartbeat_was_answered_is_dialled() -> None:
    world = World()
    world.sessions[2].has_hung_up = True
    world.links.heard(2, world.epoch_of(2), Session(listener="", local=("", 0), peer=("", 0)))
    world.links.heard(2, world.epoch_of(2), world.sessions[2])
    assert world.network.dialled == [Address("broker-2", 9092)]


# ---- 2: the probe


def test_a_broker_that_hung_up_and_whose_address_refuses_is_dead() -> None:
    world = World()
    world.hang_up()
    world.network.last.refuse()
    assert (world.ended, world.counts.refused) == ([2], 1)


def test_a_broker_whose_address_answers_may_live() -> None:
    world = World()
    world.hang_up()
    world.network.last.accept()
    world.network.last.answer()
    assert (world.network.dialled, world.ended, world.counts.unclear) == ([Address("broker-2", 9092)], [], 1)


def test_a_broker_that_is_out_of_reach_has_a_moment_to_report_again() -> None:
    world = World()
    world.hang_up()
    world.clock.advance(REPLY_MS - 1)
    assert world.ended == []
    world.clock.advance(1)
    assert (world.ended, world.counts.unreachable) == ([2], 1)


@pytest.mark.parametrize("after_ms", [0, REPLY_MS - 1])
def test_a_broker_that_reports_again_before_the_answer_lives(after_ms: int) -> None:
    world = World()
    world.hang_up()
    world.clock.advance(after_ms)
    world.report_of(2)
    assert world.network.last.is_closed
    world.clock.advance(REPLY_MS)
    assert (world.ended, world.counts.came_back) == ([], 1)


def test_the_address_that_brokers_use_is_dialled_and_not_that_of_some_clients() -> None:
    world = World(("HOST", "localhost", 29092), ("INSIDE", "broker-2", 19092))
    world.hang_up()
    assert world.network.dialled == [Address("broker-2", 19092)]


@pytest.mark.parametrize(
    ("controller_host", "is_dialled"),
    [
        ("10.0.0.1", False),  # another machine's localhost says nothing
        ("127.0.0.1", True),  # the whole cluster is on one machine
    ],
)
def test_a_loopback_address_counts_on_the_same_machine_only(controller_host: str, is_dialled: bool) -> None:
    world = World(("PLAINTEXT", "localhost", 9092), controller_host=controller_host)
    world.hang_up()
    assert bool(world.network.dialled) == is_dialled


# ---- 4: this end


def test_a_controller_that_leads_no_more_ignores_what_closes() -> None:
    world = World()
    world.quorum.is_active = False
    world.hang_up()
    assert (world.network.dialled, world.counts.ignored) == ([], 1)


def test_a_controller_that_is_deposed_while_it_dials_fences_nobody() -> None:
    world = World()
    world.hang_up()
    world.quorum.is_active = False
    world.network.last.refuse()
    assert (world.ended, world.counts.refused) == ([], 0)


def test_when_half_of_the_links_end_together_only_a_refusal_counts() -> None:
    world = World()
    world.hang_up(2)
    world.clock.advance(100)
    world.hang_up(3)
    world.network.last.refuse()
    assert world.ended == [3]
    world.clock.advance(REPLY_MS)
    assert (world.ended, world.counts.crowded) == ([3], 1)


def test_links_that_end_one_after_the_other_are_no_crowd() -> None:
    world = World()
    world.hang_up(2)
    world.clock.advance(101)
    world.hang_up(3)
    world.clock.advance(REPLY_MS)
    assert (world.ended, world.counts.crowded) == ([2, 3], 0)


# ---- 5: false alarms


def test_a_broker_that_was_fenced_and_had_not_died_is_left_to_its_session_for_a_while() -> None:
    world = World()
    world.fence()
    world.report_of(2)
    assert world.counts.false_alarms == 1
    assert len(world.report.having("was fenced and is alive")) == 1
    world.hang_up()
    world.network.last.refuse()
    assert (world.ended, world.counts.spared) == ([], 1)
    world.report_of(2)
    world.clock.advance(SPARED_MS)
    world.fence()
    assert world.counts.false_alarms == 1


# ---- 6: the successor, and a new controller


def test_a_new_controller_dials_everybody_once_and_believes_refusals_only() -> None:
    world = World()
    world.links.dial_all()
    world.links.dial_all()
    assert len(world.network.dials) == 4, "links of an earlier epoch may be dead"
    world.report_of(3)
    world.network.dials[0].refuse()
    world.clock.advance(REPLY_MS)
    assert world.ended == [2]
    assert world.counts.unreachable == 0


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
        world.hang_up()
    request = registration(2, incarnation_id=uuid(77))
    for listener in request.listeners:
        listener.name, listener.host, listener.port = "PLAINTEXT", "broker-2", 9092
    world.links.registers(request)
    assert (world.ended, world.counts.successors) == (ended, len(ended))
