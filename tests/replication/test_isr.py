"""What is committed, by how far the in-sync replicas have come."""

import pytest

from barnabas.replication.isr import InSyncReplicas

LEADER, NEAR, FAR = 1, 2, 3


@pytest.mark.parametrize(
    ("members", "log_end_offsets", "high_watermark"),
    [
        ({LEADER}, {LEADER: 10}, 10),  # nobody else has to have it
        ({LEADER}, {LEADER: 10, NEAR: 3}, 10),  # a replica that is out of sync holds nobody up
        ({LEADER, NEAR}, {LEADER: 10, NEAR: 7}, 7),  # the slowest in-sync replica decides
        ({LEADER, NEAR, FAR}, {LEADER: 10, NEAR: 7, FAR: 4}, 4),
        ({LEADER, NEAR}, {LEADER: 10, NEAR: 7, FAR: 4}, 7),
        ({LEADER, NEAR}, {LEADER: 7, NEAR: 10}, 7),  # also if that is the leader, which waits for its disk
        ({LEADER, NEAR}, {LEADER: 10}, -1),  # a member that has not reported may have nothing
    ],
)
def test_the_high_watermark_is_what_every_in_sync_replica_has(
    members: set[int], log_end_offsets: dict[int, int], high_watermark: int
) -> None:
    replicas = InSyncReplicas(members)
    found = [replicas.advance(replica, offset) for replica, offset in reversed(log_end_offsets.items())]
    assert found[-1] == high_watermark
    assert {replica: replicas.log_end_offset(replica) for replica in log_end_offsets} == log_end_offsets


def test_a_replica_that_has_not_reported_is_nowhere() -> None:
    assert InSyncReplicas([LEADER]).log_end_offset(NEAR) == -1
