"""Brokers that start while nobody decides: they know nothing of their topics so far."""

import pytest

from tests.simulation.cluster.stories.test_replication import Copies
from tests.simulation.seeds import replayable


@pytest.mark.parametrize("configs", [{"retention.ms": "-1"}, {"cleanup.policy": "compact"}], ids=["kept", "compacted"])
def test_a_broker_that_waits_for_the_controller_deletes_nothing_that_its_topics_want_to_keep(
    configs: dict[str, str],
) -> None:
    """The records are older than all that is kept by default. It waits longer than retention does at a start."""
    copies = Copies(1, 1, configs)
    with replayable(1, copies.world.trace):
        for _ in range(5):
            copies.write(0)
            copies.scheduler.run_for(20)
        copies.wait(copies.is_settled, "all replicas are in sync")
        for broker in copies.cluster.brokers:
            broker.kill()
        copies.cluster[3].start()
        copies.scheduler.run_for(45_000)
        for broker in copies.cluster.brokers[:2]:
            broker.start()
        copies.cluster.wait_until_ready(within_ms=70_000)
        copies.wait(copies.is_settled, "all replicas are in sync")
        assert [copies.log(broker, 0).log_start_offset for broker in copies.cluster.brokers] == [0, 0, 0]
        copies.check_equal()
