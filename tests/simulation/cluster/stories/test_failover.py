"""A broker whose process dies: how soon the others know, and what they tell clients meanwhile."""

import pytest

from barnabas.protocol.errors import ErrorCode
from tests.simulation.cluster.failover import Failover
from tests.simulation.net.streams import Connection, End
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import CONTROLLER_PORT
from tests.simulation.seeds import replayable

SEEDS = range(1, 9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("who", "within_ms"), [("another", 60), ("controller", 300)])
def test_a_broker_that_was_killed_is_fenced_at_once_and_never_named_again(seed: int, who: str, within_ms: int) -> None:
    failover = Failover(seed)
    world = failover.world
    with replayable(seed, world.trace):
        failover.begin()
        victim: SimulatedBroker = getattr(failover, who)
        askers = failover.ask_about(victim)
        killed_ms = world.scheduler.now_us / 1_000
        victim.kill()
        world.scheduler.run_until_true(
            lambda: failover.is_fenced(victim), within_ms=within_ms, what="everybody knows that it is dead"
        )
        world.scheduler.run_for(500)
    for asker in askers:
        assert asker.answers[0].leader == victim.node_id
        # A request may come a moment before the end of the connection; a client that knows of the death comes after.
        later = [answer for answer in asker.answers if answer.sent_ms > killed_ms + 1]
        assert len(later) > 50
        assert {(answer.leader, answer.error) for answer in later} == {(-1, ErrorCode.LEADER_NOT_AVAILABLE)}
        assert not [answer for answer in later if victim.node_id in answer.brokers]
        assert max(answer.received_ms - answer.sent_ms for answer in later) < within_ms
    assert failover.oracle.fenced == [victim.node_id]


def test_a_leader_that_nobody_can_fence_is_left_out_after_a_moment_and_named_again_later() -> None:
    """Two of three voters are dead: the one that is left suspects what nobody can decide."""
    failover = Failover(1)
    world = failover.world
    with replayable(1, world.trace):
        failover.begin()
        victim, other = failover.another, failover.controller
        (asker,) = (each for each in failover.ask_about(victim) if each.broker != other.address)
        killed_ms = world.scheduler.now_us / 1_000
        other.kill()
        victim.kill()
        world.scheduler.run_for(3_000)
    told = [(answer.sent_ms - killed_ms, answer.leader) for answer in asker.answers if answer.sent_ms > killed_ms + 1]
    assert {leader for since_ms, leader in told if since_ms < 1_700} == {-1}
    assert {leader for since_ms, leader in told if since_ms > 2_100} == {victim.node_id}
    first = next(answer for answer in asker.answers if answer.sent_ms > killed_ms + 1)
    assert 240 < first.received_ms - first.sent_ms < 260


def _link(failover: Failover, broker: SimulatedBroker) -> Connection:
    """The connection on which a broker reports: of the two to the controller, the one that was made last."""
    controller = (failover.controller.machine.name, CONTROLLER_PORT)
    links = failover.controller.server.node.links._links
    port = links[broker.node_id].session.peer[1]
    (found,) = (
        connection
        for connection in failover.world.network.connections.values()
        if connection.ends[0].peer == controller and connection.ends[0].local == (broker.machine.name, port)
    )
    return found


@pytest.mark.parametrize("end", [End.FIN, End.RST])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_broker_that_lost_its_link_and_lives_is_not_fenced(seed: int, end: End) -> None:
    failover = Failover(seed)
    world = failover.world
    with replayable(seed, world.trace):
        failover.begin()
        broker, links = failover.another, failover.controller.server.node.links
        for stream in (_link(failover, broker).to_server, _link(failover, broker).to_client):
            stream.cut(end, 0)
        world.scheduler.run_until_true(lambda: links.counts.closed == 1, within_ms=100, what="the link has ended")
        world.scheduler.run_until_true(
            lambda: broker.node_id in links._links, within_ms=100, what="the broker has reported again"
        )
        world.scheduler.run_for(1_000)
    assert links.counts.came_back + links.counts.unclear == 1
    assert failover.oracle.fenced == []


def test_a_broker_that_lost_its_link_and_is_out_of_reach_is_fenced_soon_and_spared_when_it_comes_back() -> None:
    """Its machine is cut off right after the link has ended. When that is mended, it is unfenced; the next link that
    ends in this way is left to the session."""
    failover = Failover(1, brokers=4, broker_session_timeout_ms="6000")
    world = failover.world
    with replayable(1, world.trace):
        failover.begin()
        broker, controller = failover.another, failover.controller
        links = controller.server.node.links
        for times in (1, 2):
            connection = _link(failover, broker)
            connection.to_server.cut(End.RST, 0)
            world.scheduler.run_until_true(lambda: broker.node_id not in links._links, within_ms=50, what="it ends")
            world.network.isolate(broker.machine.name)
            since_us = world.scheduler.now_us
            world.scheduler.run_until_true(
                lambda: controller.server.node.image.brokers[broker.node_id].fenced, within_ms=9_000, what="fenced"
            )
            waited_ms = (world.scheduler.now_us - since_us) / 1_000
            assert 490 < waited_ms < 600 if times == 1 else waited_ms > 3_000
            world.network.heal_all()
            failover.oracle.disturbances += 1
            world.scheduler.run_until_true(
                lambda: not controller.server.node.image.brokers[broker.node_id].fenced, within_ms=20_000, what="back"
            )
    assert (links.counts.unreachable, links.counts.false_alarms, links.counts.spared) == (1, 1, 1)
