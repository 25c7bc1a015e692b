"""A whole cluster that stops, or dies, and starts again: nobody waits for somebody who cannot come."""

import pytest

from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.seeds import replayable
from tests.simulation.world import World

SEEDS = range(1, 7)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", [SimulatedBroker.stop, SimulatedBroker.kill, SimulatedBroker.cut_power])
def test_a_cluster_that_ended_as_a_whole_is_back_soon(seed: int, how: object) -> None:
    """Also after a stop, in which the last of them finds nobody left who could let it go, or follow."""
    world = World(seed)
    cluster = SimulatedCluster(world, 3)
    with replayable(seed, world.trace):
        cluster.start()
        cluster.wait_until_ready()
        world.scheduler.run_for(3_000)
        for broker in cluster.brokers:
            how(broker)  # type: ignore[operator]
        world.scheduler.run_until_true(
            lambda: not any(broker.is_running for broker in cluster.brokers), within_ms=1_500, what="all have ended"
        )
        cluster.start()
        cluster.wait_until_ready(within_ms=400)
