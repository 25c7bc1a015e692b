"""A bit that flips on the disk of a broker that is down, in the records of one batch of one partition.

Of that partition the broker's disk is not whole any more: others must have all of it. Where the start reads the batch
again, the log is cut there, and the rest is fetched from the leader. Where it does not, because the batch is known to
have been durable, nobody takes the batch from this broker: followers and clients compare its checksum. When the faults
are over the bit flips back wherever the batch is still there, as if a repair had found it.

No header is hit: what is known of a replica by its headers stays true.
"""

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.batch_header import HEADER_BYTES, iter_batches
from barnabas.protocol.types import TopicPartition
from tests.simulation.files import SimulatedFiles
from tests.simulation.scenarios.brokers import SimulatedBroker

if TYPE_CHECKING:
    from tests.simulation.cluster.faults.cluster_faults import ClusterFaults

_TOPICS = ("flushed", "default", "grouped")
"""Those that are never deleted, and that nobody writes in transactions."""


class Flipped(NamedTuple):
    files: SimulatedFiles
    path: str
    position: int
    bit: int
    start: int
    batch: bytes
    """As it is with the wrong bit."""


def rot(faults: "ClusterFaults", random: Random) -> None:
    """Kills a broker, flips a bit on its disk, and starts it again some time later."""
    broker = faults.victim(random)
    paths = [] if broker is None else _paths(faults, broker)
    if broker is None or not paths:
        return
    partition, path = random.choice(paths)
    broker.kill()
    files = broker.machine.files
    data = files.read_bytes(path)
    start, header = random.choice(list(iter_batches(memoryview(data))))
    end = start + header.size_bytes
    position, bit = random.randrange(start + HEADER_BYTES, end), random.randrange(8)
    files.flip_bit(path, position, bit)
    faults.flipped.append(Flipped(files, path, position, bit, start, files.read_bytes(path)[start:end]))
    faults.tell(broker.machine.name, "has a wrong bit at {} of {}", position, path)
    faults.claims.disk_was_damaged(broker.node_id, partition)
    faults.watcher.disk_was_damaged(broker.node_id, partition)
    faults.start_later(broker, random)


def _paths(faults: "ClusterFaults", broker: SimulatedBroker) -> list[tuple[TopicPartition, str]]:
    """Returns the files that have batches of partitions of which somebody else has everything."""
    files = broker.machine.files
    return [
        (partition, f"/data/{partition}/{name}")
        for partition in faults.claims.by_partition
        if partition.topic in _TOPICS and faults.claims.others_hold(partition, broker.node_id)
        if files.exists(f"/data/{partition}")
        for name in files.listdir(f"/data/{partition}")
        if name.endswith(".log") and any(iter_batches(memoryview(files.read_bytes(f"/data/{partition}/{name}"))))
    ]


def repair(flipped: list[Flipped]) -> None:
    for files, path, position, bit, start, batch in flipped:
        if files.exists(path) and files.read_bytes(path)[start : start + len(batch)] == batch:
            files.flip_bit(path, position, bit)
    flipped.clear()
