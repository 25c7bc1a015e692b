import pytest

from barnabas.replication.replica_selector import ReplicaView, rack_aware_replica

NEAR = ReplicaView(2, "here", 10, 500)
FAR = ReplicaView(3, "there", 99, 900)


@pytest.mark.parametrize(
    ("rack_id", "leaders_rack", "followers", "expected"),
    [
        ("here", "there", [NEAR, FAR], 2),
        ("here", "here", [NEAR, FAR], None),  # the leader is as near
        ("elsewhere", "there", [NEAR, FAR], None),
        ("", None, [ReplicaView(2, None, 10, 500)], None),  # who does not say where it is reads the leader
        ("here", None, [NEAR, ReplicaView(4, "here", 12, 100)], 4),  # the one that has most
        ("here", None, [NEAR, ReplicaView(4, "here", 10, 600)], 4),  # or was last caught up
        ("here", None, [NEAR, ReplicaView(1, "here", 10, 500)], 2),
        ("here", None, [], None),
    ],
)
def test_who_is_near_is_read(
    rack_id: str, leaders_rack: str | None, followers: list[ReplicaView], expected: int | None
) -> None:
    assert rack_aware_replica(rack_id, leaders_rack, followers) == expected
