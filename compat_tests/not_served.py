"""What Apache Kafka 4.3 offers to its clients and Barnabas does not, each with the reason.

Reviewed, and held by test_api_versions.py: nothing else is missing, and nothing in here is served.
"""

from typing import NamedTuple


class NotServed(NamedTuple):
    what: str
    why: str
    apis: tuple[str, ...]
    features: tuple[str, ...] = ()


NOT_SERVED = (
    NotServed(
        "Transactions",
        "not served yet; what Kafka wrote in transactions can be read",
        (
            "AddPartitionsToTxn",
            "AddOffsetsToTxn",
            "EndTxn",
            "WriteTxnMarkers",
            "TxnOffsetCommit",
            "DescribeTransactions",
            "ListTransactions",
        ),
        ("transaction.version",),
    ),
    NotServed(
        "Authentication",
        "not served yet: there are only plaintext listeners",
        ("SaslHandshake", "SaslAuthenticate", "DescribeUserScramCredentials", "AlterUserScramCredentials"),
    ),
    NotServed("Access control lists", "not served yet", ("DescribeAcls", "CreateAcls", "DeleteAcls")),
    NotServed(
        "Delegation tokens",
        "not served yet: they need authentication",
        ("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
    ),
    NotServed("Client quotas", "not served yet", ("DescribeClientQuotas", "AlterClientQuotas")),
    NotServed(
        "Elections and reassignments",
        "not served yet: a partition has one replica",
        ("ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments", "AlterReplicaLogDirs"),
        ("eligible.leader.replicas.version",),
    ),
    NotServed(
        "The quorum and its brokers",
        "not served yet: the quorum is one broker",
        ("DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter", "UnregisterBroker", "UpdateFeatures"),
        ("kraft.version",),
    ),
    NotServed(
        "Client telemetry",
        "not served, nor by a Kafka without a plugin that receives it: clients would send it unasked",
        ("GetTelemetrySubscriptions", "PushTelemetry"),
    ),
    NotServed(
        "Share groups",
        "not served yet",
        (
            "ShareGroupHeartbeat",
            "ShareGroupDescribe",
            "ShareFetch",
            "ShareAcknowledge",
            "InitializeShareGroupState",
            "ReadShareGroupState",
            "WriteShareGroupState",
            "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
            "DescribeShareGroupOffsets",
            "AlterShareGroupOffsets",
            "DeleteShareGroupOffsets",
        ),
        ("share.version",),
    ),
    NotServed(
        "Streams groups", "not served yet", ("StreamsGroupHeartbeat", "StreamsGroupDescribe"), ("streams.version",)
    ),
)

APIS_NOT_SERVED = {api: absent for absent in NOT_SERVED for api in absent.apis}
FEATURES_NOT_SERVED = {feature: absent for absent in NOT_SERVED for feature in absent.features}
