"""One defect at a time is planted in a cluster with three replicas: the simulation finds it, and says what is wrong."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.replication.controller.partitions import alter_partition_control, circumstances
from barnabas.replication.isr import InSyncReplicas
from tests.simulation.cluster.plan import plan_of
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.cluster.settings import Settings

SEEDS = 5
SETTINGS = Settings(
    replication_factor=3,
    min_insync_replicas=2,
    interval_ms=100,
    admin_interval_ms=2_000,
    session_timeout_ms=2_000,
    heartbeat_interval_ms=500,
    lag_time_max_ms=700,
    faults=30,
)


class Defect(NamedTuple):
    plant: AbstractContextManager[Any]
    found_by: str
    kinds: tuple[str, ...] = ("kill",)


DEFECTS = {
    "a leader commits what only it has": Defect(
        patch.object(InSyncReplicas, "high_watermark", lambda self, *_: self.own_offset), "I13"
    ),
    "a follower acknowledges what is not on its disk": Defect(
        patch.object(FollowerPartition, "fetch_offset", property(lambda self: self.log.log_end_offset)), "I13"
    ),
    "too few are enough": Defect(patch.object(InSyncReplicas, "are_too_few", lambda *_: False), "I12", ("isolate",)),
    "a controller believes old leaders": Defect(
        patch.object(alter_partition_control, "_why_refused", lambda *_: ErrorCode.NONE), "I1[67]", ("kill", "isolate")
    ),
    "anybody is elected": Defect(
        patch.object(circumstances, "allows_unclean_elections", lambda *_: True), "I18", ("kill", "wipe", "isolate")
    ),
}


def run_some(kinds: tuple[str, ...]) -> None:
    for seed in range(SEEDS):
        ManyBrokers(plan_of(seed, SETTINGS._replace(kinds=kinds))).run()


@pytest.mark.parametrize("what", DEFECTS)
def test_a_defect_is_found(what: str) -> None:
    plant, found_by, kinds = DEFECTS[what]
    with plant, pytest.raises(AssertionError, match=found_by):
        run_some(kinds)
