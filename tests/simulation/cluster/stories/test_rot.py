"""A bit flips on one replica's disk (Jepsen on NATS: one flipped bit took records from all). A replica that cannot read
all of its log after a crash does not lead, and fetches it again; what a leader cannot read is taken by nobody.

The base offset of a batch and its leader epoch are outside its checksum, as in Kafka: no bit of them is flipped here.
"""

import pytest

from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.types import TopicPartition
from tests.simulation.cluster.stories.test_replication import TOPIC, Copies
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.seeds import replayable

NAME = TopicPartition(TOPIC, 0)
PATH = f"/data/{NAME}/{0:020d}.log"
LENGTH, MAGIC, CRC, TIMESTAMP, RECORDS = 10, 16, 18, 30, 63


def _written(seed: int) -> Copies:
    """Returns three replicas that have the same, all of it on their disks."""
    copies = Copies(seed, 1, {"flush.messages": "1", "retention.ms": "-1"})
    for _ in range(10):
        copies.write(0)
        copies.scheduler.run_for(20)
    copies.wait(copies.is_settled, "all replicas are in sync")
    return copies


def _leader(copies: Copies) -> SimulatedBroker:
    image = copies.image_of(copies.cluster.brokers[0], 0)
    assert image is not None
    return copies.cluster[image.leader]


def _flip(broker: SimulatedBroker, at: int) -> int:
    """Flips a bit of the batch in the middle, so many bytes behind its start. Returns the batch's base offset."""
    files = broker.machine.files
    batches = list(iter_batches(memoryview(files.read_bytes(PATH))))
    position, header = batches[len(batches) // 2]
    files.flip_bit(PATH, position + at)
    return header.base_offset


@pytest.mark.parametrize("how", ["kill", "cut_power"])
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
@pytest.mark.parametrize("at", [LENGTH, MAGIC, CRC, TIMESTAMP, RECORDS])
def test_what_a_replica_cannot_read_after_a_crash_it_fetches_again(at: int, leads: bool, how: str) -> None:
    copies = _written(at)
    with replayable(at, copies.world.trace):
        leader = _leader(copies)
        broker = leader if leads else next(each for each in copies.cluster.brokers if each is not leader)
        end_offset = copies.log(broker, 0).log_end_offset
        getattr(broker, how)()
        _flip(broker, at)
        broker.start()
        broker.wait_until_ready(within_ms=70_000)  # without power it has closed nothing: its session must end first
        copies.wait(copies.is_settled, "all replicas are in sync")
        assert copies.log(broker, 0).log_end_offset == end_offset
        assert _leader(copies) is not broker
        copies.check_equal()


@pytest.mark.parametrize("at", [LENGTH, MAGIC, CRC, TIMESTAMP, RECORDS])
def test_what_a_leader_cannot_read_is_taken_by_nobody(at: int) -> None:
    copies = _written(at)
    with replayable(at, copies.world.trace):
        leader = _leader(copies)
        other, last = (each for each in copies.cluster.brokers if each is not leader)
        offset, end_offset = _flip(leader, at), copies.log(leader, 0).log_end_offset
        last.kill()
        last.machine.files.rmtree(f"/data/{NAME}")
        last.start()
        last.wait_until_ready()
        copies.scheduler.run_for(2_000)
        assert copies.log(last, 0).log_end_offset <= offset
        image = copies.image_of(other, 0)
        assert image is not None
        assert last.node_id not in image.isr
        copies.lead(0, other.node_id)
        copies.wait(lambda: copies.log(last, 0).log_end_offset == end_offset, "it has all")
