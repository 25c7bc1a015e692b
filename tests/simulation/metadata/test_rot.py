"""A bit that flips in what the leader of the metadata has on its disk: nobody takes it, nobody ends because of it, and
whoever needs it gets it from the next leader."""

from collections.abc import Callable

import pytest

from barnabas.protocol.batch_header import iter_batches
from tests.simulation.files import SimulatedFiles
from tests.simulation.metadata.test_quorum import Cluster
from tests.simulation.seeds import replayable

LOG = "/data/__cluster_metadata-0"
RECORDS = 70
"""How far behind the start of a batch there are records."""


def _snapshots(files: SimulatedFiles) -> list[str]:
    return sorted(name for name in files.listdir(LOG) if name.endswith(".checkpoint"))


def _in_the_log(files: SimulatedFiles) -> None:
    """In a batch that a node which was away for a moment needs."""
    path = f"{LOG}/{max(name for name in files.listdir(LOG) if name.endswith('.log'))}"
    batches = list(iter_batches(memoryview(files.read_bytes(path))))
    files.flip_bit(path, batches[-2][0] + RECORDS, 1)


def _in_a_length(files: SimulatedFiles) -> None:
    path = f"{LOG}/{max(name for name in files.listdir(LOG) if name.endswith('.log'))}"
    batches = list(iter_batches(memoryview(files.read_bytes(path))))
    files.flip_bit(path, batches[-2][0] + 8, 6)


def _in_the_snapshot(files: SimulatedFiles) -> None:
    files.flip_bit(f"{LOG}/{_snapshots(files)[-1]}", RECORDS, 1)


def _no_snapshot(files: SimulatedFiles) -> None:
    """Nothing of it can be read."""
    files.remove(f"{LOG}/{_snapshots(files)[-1]}")


@pytest.mark.parametrize(
    ("away_ms", "rot", "line"),
    [
        (500, _in_the_log, "does not match its CRC"),
        (500, _in_a_length, "no whole batch"),
        (20_000, _in_the_snapshot, "does not match its CRC"),
        (20_000, _no_snapshot, "cannot read its snapshot at 0"),
    ],
)
def test_what_the_leader_has_damaged_comes_from_the_next(
    away_ms: int, rot: Callable[[SimulatedFiles], None], line: str
) -> None:
    cluster = Cluster(1)
    with replayable(1, cluster.world.trace):
        leader, away = cluster.leave_one_behind(away_ms)
        rot(leader.machine.files)
        away.start()
        events = cluster.world.scheduler.events
        cluster.world.scheduler.run_for(1_500)
        assert cluster.world.scheduler.events - events < 2_000, "it is asked for again after a pause"
        assert cluster.deciding is leader
        assert leader.driver is not None
        leader.driver.resign()
        cluster.wait_for_leader(5_000)
        cluster.check_all_follow()
        told = [text for text in cluster.world.trace.text().splitlines() if "of the metadata is damaged" in text]
        assert len(told) == 1
        assert line in told[0]
