"""Disks that are full, fail or are slow, for a while. A broker that ends of it is started again on a good one."""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.scenarios.brokers import SimulatedBroker

if TYPE_CHECKING:
    from tests.simulation.cluster.faults.cluster_faults import ClusterFaults

_ROOMY_BYTES = 1 << 40
_USUAL_JOB_MS = 4.0
_PATHS = ("/data/", "/data/__cluster_metadata-0", "/data/flushed-")


def fill(faults: "ClusterFaults", random: Random) -> None:
    """Leaves a broker next to no room."""
    broker = faults.victim(random)
    if broker is not None and broker.is_ready and not is_in_trouble(broker):
        files, room_bytes = broker.machine.files, random.choice((0, 100, 3_000))
        faults.tell(broker.machine.name, "has {} bytes left on its disk", room_bytes)
        files.capacity_bytes = files.used_bytes() + room_bytes
        _repair_later(faults, broker, random)


def fail(faults: "ClusterFaults", random: Random) -> None:
    """Lets what a broker syncs, or writes, fail: all of it, or a part."""
    broker = faults.victim(random)
    if broker is not None and broker.is_ready and not is_in_trouble(broker):
        files, path = broker.machine.files, random.choice(_PATHS)
        what = random.choice(("syncs", "syncs", "writes"))
        faults.tell(broker.machine.name, "has a disk that fails: {} of {}", what, path)
        (files.failing_syncs if what == "syncs" else files.failing_writes).add(path)
        _repair_later(faults, broker, random)


def slow_down(faults: "ClusterFaults", random: Random) -> None:
    """Lets what a broker syncs take long."""
    broker = faults.victim(random)
    if broker is not None and broker.is_ready:
        workers = broker.process.workers
        workers.duration_ms_max = random.choice((30, 200, 800))
        faults.tell(broker.machine.name, "has a disk that takes up to {} ms", workers.duration_ms_max)
        _repair_later(faults, broker, random)


def may_end_brokers(happened: Mapping[str, int]) -> bool:
    """Returns whether there has been a fault after which a broker may end by itself."""
    return "full disk" in happened or "failing disk" in happened


def is_in_trouble(broker: SimulatedBroker) -> bool:
    files = broker.machine.files
    return files.capacity_bytes < _ROOMY_BYTES or bool(files.failing_syncs or files.failing_writes)


def _repair_later(faults: "ClusterFaults", broker: SimulatedBroker, random: Random) -> None:
    faults.later(random.choice((100, 1_000, 5_000)), random, lambda: repair(faults, broker))


def repair(faults: "ClusterFaults", broker: SimulatedBroker) -> None:
    """Makes a disk well again, with all that is on it."""
    files = broker.machine.files
    if is_in_trouble(broker):
        faults.oracle.disturbances += 1
        faults.tell(broker.machine.name, "has a disk that is well again")
    files.capacity_bytes = _ROOMY_BYTES
    files.failing_syncs.clear()
    files.failing_writes.clear()
    if broker.is_running:
        broker.process.workers.duration_ms_max = _USUAL_JOB_MS
