"""What Apache Kafka 4.3 offers to its clients and Barnabas does not, each with the reason; and the few versions that
Barnabas serves to the clients of Kafka 4.4, of which Kafka 4.3 does not know.

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
        "Authentication",
        "not served yet: there are only plaintext listeners",
        ("SaslHandshake", "SaslAuthenticate", "DescribeUserScramCredentials", "AlterUserScramCredentials"),
    ),
    NotServed(
        "Delegation tokens",
        "not served yet: they need authentication",
        ("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
    ),
    NotServed("Client quotas", "not served yet: there are none", ("AlterClientQuotas",)),
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

SINCE_KAFKA_4_4 = {"ApiVersions": range(0, 6), "DeleteGroups": range(0, 4), "TxnOffsetCommit": range(0, 7)}

APIS_NOT_SERVED = {api: absent for absent in NOT_SERVED for api in absent.apis}
FEATURES_NOT_SERVED = {feature: absent for absent in NOT_SERVED for feature in absent.features}
