"""A cluster in which nothing happens."""

import pytest

from tests.simulation.loop import SimulatedLoop
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.seeds import replayable
from tests.simulation.world import World


@pytest.mark.parametrize("seed", range(4))
def test_an_idle_cluster_keeps_its_controller_though_time_passes_between_two_looks_at_the_clock(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What becomes due between the look that the core is told of and the next one, which sets the timer, must not be
    forgotten: fetches that nobody answers let the followers elect another leader."""
    latest: dict[SimulatedLoop, int] = {}
    exact = SimulatedLoop.monotonic_ms

    def looked_at(loop: SimulatedLoop) -> int:
        now_ms = exact(loop)
        latest[loop] = now_ms if latest.get(loop, 0) < now_ms else now_ms + 1
        return latest[loop]

    monkeypatch.setattr(SimulatedLoop, "monotonic_ms", looked_at)
    world = World(seed)
    cluster = SimulatedCluster(world, 3)
    with replayable(seed, world.trace):
        cluster.start()
        cluster.wait_until_ready()
        world.scheduler.run_for(2_000)
        assert cluster.controller is not None
        before = cluster.controller.server.node.quorum.driver.leader[:2]
        world.scheduler.run_for(60_000)
        assert {broker.server.node.quorum.driver.leader[:2] for broker in cluster.brokers} == {before}
