"""For every API that is served a small request that means something in each of its versions, and what is answered."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from compat_tests.differential.batches import Batch

NONE, UNKNOWN_TOPIC, UNKNOWN_MEMBER, SECURITY_DISABLED, GROUP_NOT_FOUND, MEMBER_ID_REQUIRED = 0, 3, 25, 54, 69, 79
LOG_DIR_NOT_FOUND = 57
NO_COORDINATOR = frozenset({15, 16})
UNKNOWN_PRODUCER = frozenset({49, *NO_COORDINATOR})
"""What is said of a transactional id that nobody has, or where nobody has asked for a coordinator so far."""
TRANSACTIONAL_ID_NOT_FOUND = 105
ELECTION_NOT_NEEDED, NO_REASSIGNMENT_IN_PROGRESS, BROKER_ID_NOT_REGISTERED, INCONSISTENT_CLUSTER_ID = 84, 85, 102, 104
TOPIC_RESOURCE = 2
ANY_ACL = {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1}


class Place(NamedTuple):
    """What the requests are about: a topic of one partition, and a group that has committed its offset."""

    topic: str
    topic_id: bytes
    group: str

    def named(self, version: int, ids_since: int, field: str = "Name") -> dict[str, Any]:
        return {"TopicId": self.topic_id} if version >= ids_since else {field: self.topic}


class Asked(NamedTuple):
    body: Callable[[Place, int], dict[str, Any]]
    codes: frozenset[int] = frozenset({NONE})
    """Every error code that may be in an answer."""


def produce(place: Place, version: int) -> dict[str, Any]:
    partition = {"Index": 0, "Records": Batch(timestamp=int(time.time() * 1000)).encoded(-1)}
    return {"Acks": -1, "TimeoutMs": 10_000, "TopicData": [{**place.named(version, 13), "PartitionData": [partition]}]}


def fetch(place: Place, version: int) -> dict[str, Any]:
    partition = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
    return {"MinBytes": 0, "Topics": [{**place.named(version, 13, "Topic"), "Partitions": [partition]}]}


def list_offsets(place: Place, version: int) -> dict[str, Any]:
    asked = {"PartitionIndex": 0, "Timestamp": -1}
    return {"ReplicaId": -1, "Topics": [{"Name": place.topic, "Partitions": [asked]}]}


def add_partitions_to_txn(place: Place, version: int) -> dict[str, Any]:
    topics = [{"Name": place.topic, "Partitions": [0]}]
    if version >= 4:
        named = {"TransactionalId": "nobody", "ProducerId": 1, "ProducerEpoch": 0, "Topics": topics}
        return {"Transactions": [{**named, "VerifyOnly": True}]}
    return {
        "V3AndBelowTransactionalId": "nobody",
        "V3AndBelowProducerId": 1,
        "V3AndBelowProducerEpoch": 0,
        "V3AndBelowTopics": topics,
    }


def txn_offset_commit(place: Place, version: int) -> dict[str, Any]:
    partition = {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}
    topics = [{"Name": place.topic, "Partitions": [partition]}]
    named = {"TransactionalId": "nobody", "ProducerId": 1, "ProducerEpoch": 0, "GroupId": place.group}
    return {**named, "Topics": topics}


def metadata(place: Place, version: int) -> dict[str, Any]:
    return {"Topics": [{"Name": place.topic}], "AllowAutoTopicCreation": False}


def offset_commit(place: Place, version: int) -> dict[str, Any]:
    partition = {"PartitionIndex": 0, "CommittedOffset": 0, "CommittedMetadata": ""}
    return {"GroupId": place.group, "Topics": [{**place.named(version, 10), "Partitions": [partition]}]}


def offset_fetch(place: Place, version: int) -> dict[str, Any]:
    group = {"GroupId": place.group, "Topics": [{**place.named(version, 10), "PartitionIndexes": [0]}]}
    return {"Groups": [group]} if version >= 8 else group


def find_coordinator(place: Place, version: int) -> dict[str, Any]:
    return {"Key": place.group, "CoordinatorKeys": [place.group]}


def join_group(place: Place, version: int) -> dict[str, Any]:
    return {
        "GroupId": f"{place.group}-join-{version}",
        "SessionTimeoutMs": 6_000,
        "RebalanceTimeoutMs": 6_000,
        "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": b""}],
    }


def heartbeat(place: Place, version: int) -> dict[str, Any]:
    return {"GroupId": place.group, "MemberId": "nobody"}


def leave_group(place: Place, version: int) -> dict[str, Any]:
    return {"GroupId": place.group, "MemberId": "nobody", "Members": [{"MemberId": "nobody"}]}


def sync_group(place: Place, version: int) -> dict[str, Any]:
    names = {"ProtocolType": "consumer", "ProtocolName": "range"}
    return {"GroupId": place.group, "MemberId": "nobody", **names}


def delete_records(place: Place, version: int) -> dict[str, Any]:
    topic = {"Name": place.topic, "Partitions": [{"PartitionIndex": 0, "Offset": 0}]}
    return {"TimeoutMs": 10_000, "Topics": [topic]}


def offset_delete(place: Place, version: int) -> dict[str, Any]:
    return {"GroupId": place.group, "Topics": [{"Name": place.topic, "Partitions": [{"PartitionIndex": 0}]}]}


def create_topics(place: Place, version: int) -> dict[str, Any]:
    topic = {"Name": f"{place.topic}-not-made", "NumPartitions": 1, "ReplicationFactor": 1}
    return {"Topics": [topic], "timeoutMs": 10_000, "validateOnly": True}


def delete_topics(place: Place, version: int) -> dict[str, Any]:
    name = f"{place.topic}-not-made"
    return {"Topics": [{"Name": name}], "TopicNames": [name], "TimeoutMs": 10_000}


def offset_for_leader_epoch(place: Place, version: int) -> dict[str, Any]:
    partition = {"Partition": 0, "LeaderEpoch": 0}
    return {"ReplicaId": -1, "Topics": [{"Topic": place.topic, "Partitions": [partition]}]}


def describe_configs(place: Place, version: int) -> dict[str, Any]:
    resource = {"ResourceType": TOPIC_RESOURCE, "ResourceName": place.topic, "ConfigurationKeys": ["retention.ms"]}
    return {"Resources": [resource]}


def alter_configs(place: Place, version: int) -> dict[str, Any]:
    resource = {
        "ResourceType": TOPIC_RESOURCE,
        "ResourceName": place.topic,
        "Configs": [{"Name": "retention.ms", "Value": "1000000"}],
    }
    return {"Resources": [resource], "ValidateOnly": True}


def create_partitions(place: Place, version: int) -> dict[str, Any]:
    topic = {"Name": place.topic, "Count": 2, "Assignments": None}
    return {"Topics": [topic], "TimeoutMs": 10_000, "ValidateOnly": True}


def alter_replica_log_dirs(place: Place, version: int) -> dict[str, Any]:
    return {"Dirs": [{"Path": "/no/such/dir", "Topics": [{"Name": place.topic, "Partitions": [0]}]}]}


def consumer_group_heartbeat(place: Place, version: int) -> dict[str, Any]:
    return {
        "GroupId": f"{place.group}-heartbeat-{version}",
        "MemberId": "xtgzkqYIQ_CaSyBtJ4vRhQ",
        "RebalanceTimeoutMs": 6_000,
        "SubscribedTopicNames": [place.topic],
        "TopicPartitions": [],
    }


def create_acls(place: Place, version: int) -> dict[str, Any]:
    resource = {"ResourceType": TOPIC_RESOURCE, "ResourceName": place.topic, "ResourcePatternType": 3}
    return {"Creations": [{**resource, "Principal": "User:u", "Host": "*", "Operation": 3, "PermissionType": 3}]}


def elect_leaders(place: Place, version: int) -> dict[str, Any]:
    return {"TopicPartitions": [{"Topic": place.topic, "Partitions": [0]}], "TimeoutMs": 10_000}


def alter_partition_reassignments(place: Place, version: int) -> dict[str, Any]:
    """Cancels a reassignment. There is none."""
    return {"Topics": [{"Name": place.topic, "Partitions": [{"PartitionIndex": 0, "Replicas": None}]}]}


def describe_quorum(place: Place, version: int) -> dict[str, Any]:
    return {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]}


def update_features(place: Place, version: int) -> dict[str, Any]:
    return {"timeoutMs": 10_000, "FeatureUpdates": [{"Feature": "group.version", "MaxVersionLevel": 1}]}


def remove_raft_voter(place: Place, version: int) -> dict[str, Any]:
    return {"ClusterId": "another", "VoterId": 7}


def add_raft_voter(place: Place, version: int) -> dict[str, Any]:
    return {**remove_raft_voter(place, version), "TimeoutMs": 10_000}


REQUESTS = {
    "Produce": Asked(produce),
    "Fetch": Asked(fetch),
    "ListOffsets": Asked(list_offsets),
    "Metadata": Asked(metadata),
    "OffsetCommit": Asked(offset_commit),
    "OffsetFetch": Asked(offset_fetch),
    "FindCoordinator": Asked(find_coordinator),
    "JoinGroup": Asked(join_group, frozenset({NONE, MEMBER_ID_REQUIRED})),
    "Heartbeat": Asked(heartbeat, frozenset({UNKNOWN_MEMBER})),
    "LeaveGroup": Asked(leave_group, frozenset({NONE, UNKNOWN_MEMBER})),
    "SyncGroup": Asked(sync_group, frozenset({UNKNOWN_MEMBER})),
    "DescribeGroups": Asked(lambda place, _: {"Groups": [place.group]}),
    "ListGroups": Asked(lambda place, _: {}),
    "ApiVersions": Asked(lambda place, _: {"ClientSoftwareName": "tests", "ClientSoftwareVersion": "1"}),
    "CreateTopics": Asked(create_topics),
    "DeleteTopics": Asked(delete_topics, frozenset({UNKNOWN_TOPIC})),
    "DeleteRecords": Asked(delete_records),
    "AddOffsetsToTxn": Asked(
        lambda place, _: {"TransactionalId": "nobody", "ProducerId": 1, "ProducerEpoch": 0, "GroupId": place.group},
        UNKNOWN_PRODUCER,
    ),
    "AddPartitionsToTxn": Asked(add_partitions_to_txn, UNKNOWN_PRODUCER | {NONE}),
    "DescribeTransactions": Asked(
        lambda _place, _version: {"TransactionalIds": ["nobody"]},
        NO_COORDINATOR | {NONE, TRANSACTIONAL_ID_NOT_FOUND},
    ),
    "EndTxn": Asked(
        lambda _place, _version: {
            "TransactionalId": "nobody",
            "ProducerId": 1,
            "ProducerEpoch": 0,
            "Committed": True,
        },
        UNKNOWN_PRODUCER,
    ),
    "WriteTxnMarkers": Asked(
        lambda _place, _version: {
            "Markers": [
                {
                    "ProducerId": 1,
                    "ProducerEpoch": 0,
                    "TransactionResult": False,
                    "Topics": [{"Name": "nowhere", "PartitionIndexes": [0]}],
                    "CoordinatorEpoch": 0,
                }
            ]
        },
        frozenset({UNKNOWN_TOPIC}),
    ),
    "TxnOffsetCommit": Asked(txn_offset_commit, UNKNOWN_PRODUCER),
    "ListTransactions": Asked(lambda _place, _version: {"StateFilters": ["Ongoing"]}),
    "InitProducerId": Asked(lambda place, _: {"TransactionalId": None, "TransactionTimeoutMs": 10_000}),
    "OffsetForLeaderEpoch": Asked(offset_for_leader_epoch),
    "DescribeAcls": Asked(lambda place, _: ANY_ACL, frozenset({SECURITY_DISABLED})),
    "CreateAcls": Asked(create_acls, frozenset({SECURITY_DISABLED})),
    "DeleteAcls": Asked(lambda place, _: {"Filters": [ANY_ACL]}, frozenset({SECURITY_DISABLED})),
    "DescribeConfigs": Asked(describe_configs),
    "AlterConfigs": Asked(alter_configs),
    "AlterReplicaLogDirs": Asked(alter_replica_log_dirs, frozenset({LOG_DIR_NOT_FOUND})),
    "DescribeLogDirs": Asked(lambda place, _: {"Topics": [{"Topic": place.topic, "Partitions": [0]}]}),
    "CreatePartitions": Asked(create_partitions),
    "DeleteGroups": Asked(lambda place, _: {"GroupsNames": ["nobody"]}, frozenset({GROUP_NOT_FOUND})),
    "IncrementalAlterConfigs": Asked(alter_configs),
    "AlterPartitionReassignments": Asked(alter_partition_reassignments, frozenset({NONE, NO_REASSIGNMENT_IN_PROGRESS})),
    "ListPartitionReassignments": Asked(lambda place, _: {"Topics": None}),
    "OffsetDelete": Asked(offset_delete),
    "DescribeClientQuotas": Asked(lambda place, _: {}),
    "DescribeCluster": Asked(lambda place, _: {}),
    "DescribeProducers": Asked(lambda place, _: {"Topics": [{"Name": place.topic, "PartitionIndexes": [0]}]}),
    "ConsumerGroupHeartbeat": Asked(consumer_group_heartbeat),
    "ConsumerGroupDescribe": Asked(lambda place, _: {"GroupIds": ["nobody"]}, frozenset({GROUP_NOT_FOUND})),
    "ListConfigResources": Asked(lambda place, _: {}),
    "ElectLeaders": Asked(elect_leaders, frozenset({NONE, ELECTION_NOT_NEEDED})),
    "DescribeQuorum": Asked(describe_quorum),
    "UpdateFeatures": Asked(update_features),
    "UnregisterBroker": Asked(lambda place, _: {"BrokerId": 7}, frozenset({BROKER_ID_NOT_REGISTERED})),
    "AddRaftVoter": Asked(add_raft_voter, frozenset({INCONSISTENT_CLUSTER_ID})),
    "RemoveRaftVoter": Asked(remove_raft_voter, frozenset({INCONSISTENT_CLUSTER_ID})),
    "DescribeTopicPartitions": Asked(lambda place, _: {"Topics": [{"Name": place.topic}]}),
}


def error_codes(answer: Any) -> set[int]:
    """Returns all error codes in an answer, however deep they are."""
    if isinstance(answer, dict):
        own = {answer["ErrorCode"]} if "ErrorCode" in answer else set()
        return own.union(*map(error_codes, answer.values()))
    return set().union(*map(error_codes, answer)) if isinstance(answer, list) else set()
