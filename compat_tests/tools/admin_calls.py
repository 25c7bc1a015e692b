"""What kafka-python's admin client is asked about replicas and the quorum, and is told the same by all brokers.

Each call takes the client and the cluster, and returns what is to be compared.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition

from compat_tests.brokers import Broker

PREFERRED, UNCLEAN = 0, 1
NOWHERE = "/no/such/dir"

Call = Callable[[KafkaAdminClient, Broker], Any]


def quorum(admin: KafkaAdminClient, _cluster: Broker) -> Any:
    """Returns who votes, who observes and where they are; offsets, times and directory ids are each cluster's own."""
    told = admin.describe_metadata_quorum()
    ((partition,),) = (topic["partitions"] for topic in told["topics"])
    assert partition["leader_id"] in (1, 2, 3)
    return {
        "fields": sorted(partition),
        "error": partition["error"],
        "fields of a voter": sorted(partition["current_voters"][0]),
        "voters": sorted(voter["replica_id"] for voter in partition["current_voters"]),
        "observers": sorted(observer["replica_id"] for observer in partition["observers"]),
        "nodes": sorted(
            (node["node_id"], [(listener["name"], listener["host"]) for listener in node["listeners"]])
            for node in told["nodes"]
        ),
    }


def elect(election_type: int, partitions: dict[str, list[int]]) -> Call:
    def call(admin: KafkaAdminClient, _cluster: Broker) -> Any:
        told = admin.elect_leaders(election_type, partitions, raise_errors=False)
        codes = {
            (result.topic, partition.partition_id): partition.error_code
            for result in told.replica_election_results
            for partition in result.partition_result
        }
        return told.error_code, codes

    return call


def reassign(*moves: tuple[str, int, list[int] | None]) -> Call:
    def call(admin: KafkaAdminClient, _cluster: Broker) -> Any:
        told = admin.alter_partition_reassignments({TopicPartition(topic, index): on for topic, index, on in moves})
        return {partition: error and error.__name__ for partition, error in told.items()}

    return call


def reassignments(admin: KafkaAdminClient, _cluster: Broker) -> Any:
    return admin.list_partition_reassignments()


def log_dirs(admin: KafkaAdminClient, cluster: Broker) -> Any:
    """Names the dir that has the replica, one that is none, and replicas that are not there."""
    own = {node_id: str(data_dir.resolve()) for node_id, data_dir in enumerate(cluster.data_dirs, 1)}
    told = [
        admin.alter_replica_log_dirs({("safe", 0, 1): own[1], ("safe", 1, 2): own[2], ("safe", 2, 3): NOWHERE}),
        admin.alter_replica_log_dirs({("lonely", 0, 1): own[1], ("missing", 0, 1): own[1], ("missing", 1, 2): NOWHERE}),
    ]
    return [sorted((tuple(replica), error.__name__) for replica, error in errors.items()) for errors in told]


CALLS: Mapping[str, Call] = {
    "describe_metadata_quorum": quorum,
    "elect_leaders, which lead already": elect(PREFERRED, {"safe": [0, 1, 2]}),
    "elect_leaders, of partitions that are not there": elect(PREFERRED, {"safe": [9], "missing": [0]}),
    "elect_leaders, unclean": elect(UNCLEAN, {"safe": [0]}),
    "alter_partition_reassignments, to where it is": reassign(("safe", 0, [1, 2, 3])),
    "alter_partition_reassignments, to nobody": reassign(
        ("safe", 0, [1, 9]), ("safe", 1, [2, -1]), ("missing", 0, [1])
    ),
    "alter_partition_reassignments, twice the same": reassign(("safe", 0, [1, 1])),
    "alter_partition_reassignments, of what is not there": reassign(("safe", 7, [1]), ("missing", 0, None)),
    "alter_partition_reassignments, nothing to cancel": reassign(("safe", 0, None)),
    "list_partition_reassignments": reassignments,
    "alter_replica_log_dirs": log_dirs,
}
