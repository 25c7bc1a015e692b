"""Disks that are lost, as long as the settings survive it.

Of a partition the last copy is spared, and of the metadata a majority: a voter that comes back with an empty disk is
another voter, and until it has joined, no other may lose what it knows.
"""

from barnabas.replication.quorum.voters import VoterSet
from barnabas.storage.metadata_files import META_PROPERTIES
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import SimulatedCluster, format_disk

METADATA = frozenset({META_PROPERTIES, "__cluster_metadata-0", "bootstrap.checkpoint"})


def wipe_partitions(broker: SimulatedBroker) -> None:
    """Takes everything but what the broker knows of the metadata."""
    files = broker.machine.files
    for entry in files.listdir("/data"):
        if entry not in METADATA:
            files.rmtree(f"/data/{entry}")
    files.sync_dir("/data")


def wipe_all(cluster: SimulatedCluster, broker: SimulatedBroker) -> None:
    """Puts another disk into a broker's machine, formatted as one of a node that does not vote so far."""
    random = cluster.world.random(broker.machine.name, f"directory id after life {broker.machine.lives}")
    directory_id = cluster.directory_ids[broker.node_id] = random.randbytes(16)
    broker.machine.files.rmtree("/data")
    format_disk(broker, directory_id, ())


def may_be_wiped(cluster: SimulatedCluster, broker: SimulatedBroker) -> bool:
    """Returns whether the metadata survive that a node forgets them: it does not vote, as far as anybody knows, or
    three vote, all are there with the disks that do, and no other set of voters is on its way."""
    sets = [voters for each in cluster.brokers for voters in voters_known_to(each)]
    if all(broker.node_id not in voters for voters in sets):
        return True
    controller = cluster.controller
    if controller is None:
        return False
    replica = controller.server.node.quorum.driver.core.replica
    voters, voting = replica.voters, [cluster[key.node_id] for key in replica.voters.keys]
    return (
        len(voters) >= 3
        and replica.high_watermark > replica.history.last_offset
        and are_whole(cluster, voters)
        and all(each.is_running and voters_known_to(each)[:1] == [voters] for each in voting)
    )


def are_whole(cluster: SimulatedCluster, voters: VoterSet) -> bool:
    """Returns whether all of them have the disks that vote."""
    return all(key.directory_id == cluster.directory_ids[key.node_id] for key in voters.keys)


def voters_known_to(broker: SimulatedBroker) -> list[VoterSet]:
    """Returns the set that a node holds to be in force, and the one before it."""
    if not hasattr(broker.server, "node"):
        return []
    history = broker.server.node.quorum.driver.core.replica.history
    return [voters for voters in (history.last, history.before_last) if voters is not None]
