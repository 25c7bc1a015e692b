"""What the session of a follower finds that is news, though nothing was appended."""

from barnabas.broker.replica_sessions import SWEEP_MS, ReplicaSession, SessionPartition
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.messages.fetch import FetchPartition
from barnabas.replication.metadata.image import PartitionImage
from tests.broker.replicas.leaders import Brokers
from tests.storage.logs import NOW_MS, ORDERS, TOPIC_ID, Broker, batch

OF_TWO = PartitionImage(leader=1, leader_epoch=4, partition_epoch=6, replicas=(1, 2), isr=(1, 2))
TOLD_MS = 10_000


def told_before_it_was_committed() -> tuple[ReplicaSession, SessionPartition]:
    partition = LeaderPartition(ORDERS, TOPIC_ID, Broker().log(), OF_TWO, Brokers({1: 10, 2: 20}))
    session = ReplicaSession(1, replica_id=2, replica_epoch=20)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    each = session.ask((TOPIC_ID, 0), asked)
    each.enter(partition)
    each.high_watermark, each.log_start_offset, each.told_ms = 0, 0, TOLD_MS
    partition.append(memoryview(batch()), NOW_MS)
    session.dirty.clear()  # it was sent
    partition.follower_fetched(2, 20, 1, 0, TOLD_MS + 1)
    return session, each


def test_a_sweep_finds_what_is_committed_since_the_follower_heard() -> None:
    session, each = told_before_it_was_committed()
    assert session.sweep(TOLD_MS + SWEEP_MS) == [each]
    each.high_watermark = 1
    assert session.sweep(TOLD_MS + 2 * SWEEP_MS) == []


def test_what_the_follower_heard_of_a_moment_ago_is_left_to_the_next_sweep() -> None:
    """While records keep coming there is none: their answers say it."""
    session, each = told_before_it_was_committed()
    assert session.sweep(TOLD_MS + SWEEP_MS - 1) == []
    assert session.sweep(TOLD_MS + 2 * SWEEP_MS - 1) == [each]
