"""Connections that are dead without a word: a broker must not wait for them longer than for a heartbeat."""

from tests.simulation.net.streams import End
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.seeds import replayable
from tests.simulation.world import World

_NEGOTIATION_BYTES = 150
"""Enough for ApiVersions, and not for a registration."""


def test_a_broker_whose_registration_is_not_answered_asks_again() -> None:
    world = World(1)
    cluster = SimulatedCluster(world, 3, voters=1)
    network, last = world.network, cluster[3]
    with replayable(1, world.trace):
        for broker in (cluster[1], cluster[2]):
            broker.start()
            broker.wait_until_ready()
        last.start()
        world.scheduler.step()
        world.scheduler.run_until_true(
            lambda: last.server.node.quorum.driver.leader[0] == 1, within_ms=5_000, what="it knows the controller"
        )
        known = set(network.connections)
        for _ in range(200):
            world.scheduler.run_for(0.5)
            for number in set(network.connections) - known:
                known.add(number)
                network.connections[number].to_server.cut(End.SILENCE, _NEGOTIATION_BYTES)
        last.wait_until_ready(within_ms=10_000)
    assert world.scheduler.now_us > 4_000_000, "the registration got through"
