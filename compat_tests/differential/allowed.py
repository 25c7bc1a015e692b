"""What may differ, and why. Everything else is a defect, of the broker or of this test.

`python -m compat_tests.differential --allowed` prints the list. An entry that `ends` a story is about something that
the two brokers did, not only about what they said of it: what follows cannot be compared.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple

from compat_tests.differential import conditions as c
from compat_tests.differential.conditions import Seen


class Allowed(NamedTuple):
    api: str  # or * for all
    path: str  # of the field, without indexes, with * for anything
    reason: str
    when: Callable[[Seen], bool] = c.always
    ends: bool = False


def allowance(seen: Seen) -> Allowed | None:
    name, path = seen.request.api.name, seen.difference.path
    for entry in ALLOWED:
        if entry.api in ("*", name) and fnmatchcase(path, entry.path) and entry.when(seen):
            return entry
    return None


EVERYWHERE = (
    Allowed("*", "*ThrottleTimeMs", "Quotas are not served: nobody is throttled."),
    Allowed("*", "*ErrorMessage", "Texts are for people; both have one.", c.both_texts),
    Allowed("*", "*ErrorMessage", "A refusal is explained also where Kafka's is not.", c.text_here_only),
    Allowed("*", "*LogAppendTimeMs", "Each broker has its own clock.", c.both_clocks),
    Allowed("*", "*TimeMs", "Each broker has its own clock.", c.both_clocks),
    Allowed("*", "*Timestamp", "Each broker has its own clock, and LogAppendTime writes it.", c.both_clocks),
    Allowed("*", "*Documentation", "Documentation is for people; it is written anew."),
    Allowed(
        "*",
        "*",
        "What Kafka answers with UNKNOWN_SERVER_ERROR gets the error that fits, or what was meant.",
        c.kafka_failed,
        ends=True,
    ),
)

CLUSTER = (
    Allowed("ApiVersions", "ApiKeys", "APIs that are not served are not advertised.", c.absent_here),
    Allowed("ApiVersions", "ApiKeys.MaxVersion", "Versions that came with Kafka 4.4 are served, too.", c.newer_here),
    Allowed("ApiVersions", "SupportedFeatures", "Features that are not served are not advertised.", c.absent_here),
    Allowed("ApiVersions", "FinalizedFeatures", "Features that are not served are not advertised.", c.absent_here),
    Allowed("ApiVersions", "FinalizedFeatures", "The log says who votes: kraft.version is 1.", c.dynamic_voters_here),
    Allowed("ApiVersions", "FinalizedFeaturesEpoch", "The epoch counts each cluster's own metadata."),
    Allowed("DescribeLogDirs", "Results.UsableBytes", "The disk is in use while it is asked."),
)

RECORDS = (
    Allowed(
        "Produce",
        "*",
        "Records inside a batch are not read when they are produced, unless their meaning is needed.",
        c.wrong_inside,
        ends=True,
    ),
    Allowed(
        "Produce",
        "connection",
        "Kafka fails on null records and then leaves a connection without acknowledgements mute.",
        c.mute_after_null_records,
        ends=True,
    ),
    Allowed(
        "Produce",
        "*",
        "Of a partition that is named twice the last batch counts; Kafka refuses it if any of them is wrong.",
        c.partition_twice,
        ends=True,
    ),
    Allowed(
        "Produce",
        "*LogAppendTimeMs",
        "A retried batch is answered without a timestamp under CreateTime; Kafka gives the batch's.",
        c.retried,
    ),
    Allowed(
        "WriteTxnMarkers",
        "connection",
        "Kafka never answers for a marker that names a partition twice, or none.",
        c.never_answered_by_kafka,
        ends=True,
    ),
    Allowed("Fetch", "*AbortedTransactions", "None at all are an empty list; Kafka may say null.", c.none_or_empty),
    Allowed(
        "ListOffsets",
        "*Offset",
        "Of records with the same LogAppendTime the first is the newest; each broker has its own clock.",
        c.newest_of_one_millisecond,
    ),
    Allowed("Fetch", "*Records", "A fetch brings whole batches; Kafka may cut the last one.", c.cut_by_kafka),
)

CONFIGS = (
    Allowed("*", "*Configs", "A key of our own: how far records are read when they are produced.", c.key_of_ours),
    Allowed("DescribeConfigs", "Results.Configs", "Broker keys without effect here are left out.", c.absent_broker_key),
    Allowed(
        "DescribeConfigs",
        "Results*",
        "A resource of an unknown type is refused alone; in Kafka it takes the others with it.",
        c.unknown_resource_type,
    ),
    Allowed(
        "DescribeConfigs",
        "Results.Configs.*",
        "Addresses, folders and the quorum are each broker's own, and so are a few defaults.",
        c.of_a_broker_alone,
    ),
    Allowed(
        "DescribeConfigs",
        "Results.Configs.ReadOnly",
        "Fewer keys of a running broker can be changed.",
        c.of_a_broker,
    ),
    Allowed(
        "AlterConfigs",
        "connection",
        "Kafka never answers if a resource is named twice or is of an unknown type.",
        c.never_answered_by_kafka,
        ends=True,
    ),
    Allowed(
        "IncrementalAlterConfigs",
        "Responses.ErrorCode",
        "Of a change that is wrong in two ways one is told, not always the same.",
        c.wrong_in_two_ways,
    ),
    Allowed(
        "IncrementalAlterConfigs",
        "Responses.ErrorCode",
        "An operation that does not exist is told before anything else; Kafka fails on it when it gets there.",
        c.unknown_operation,
    ),
)

TOPICS = (
    Allowed(
        "CreateTopics",
        "*",
        "Too many partitions are refused however many they are; in Kafka the sum overflows.",
        c.partitions_overflow,
        ends=True,
    ),
)

GROUPS = (
    Allowed("FindCoordinator", "*ErrorCode", "Share groups are not served yet.", c.about_share_groups),
    Allowed(
        "JoinGroup",
        "connection",
        "A protocol that a member names twice counts once; Kafka fails on it and never answers.",
        c.protocol_twice,
        ends=True,
    ),
    Allowed(
        "JoinGroup",
        "connection",
        "Kafka fails on a subscription that it cannot read and never answers.",
        c.unreadable_subscription,
        ends=True,
    ),
    *(
        Allowed(
            api,
            path,
            "A classic group is known from its first member on; Kafka does not always know it before it is written.",
            condition,
        )
        for api, path, condition in (
            ("DescribeGroups", "Groups*", c.not_written_yet),
            ("ListGroups", "Groups", c.listed_before_it_is_written),
        )
    ),
    *(
        Allowed(
            "ConsumerGroupHeartbeat",
            path,
            "A new pattern is resolved in the heartbeat that brings it; Kafka answers first.",
            c.brings_a_pattern,
            ends=True,
        )
        for path in ("MemberEpoch", "Assignment*")
    ),
    *(
        Allowed(
            api,
            path,
            "Which of several members with equal claims gets a partition follows from a hash order of their ids.",
            c.equal_claims,
            ends=True,
        )
        for api, path in (
            ("ConsumerGroupHeartbeat", "Assignment*"),
            ("ConsumerGroupDescribe", "Groups.Members.*Assignment.TopicPartitions*"),
        )
    ),
    Allowed(
        "DescribeLogDirs",
        "Results.Topics.Partitions.PartitionSize",
        "What groups write holds ids and times of each broker's own.",
        c.of_the_groups_topic,
    ),
    Allowed(
        "ListGroups", "Groups", "A commit that stores nothing makes no group.", c.empty_group_of_a_commit, ends=True
    ),
    Allowed(
        "DescribeGroups",
        "Groups.*",
        "A commit that stores nothing makes no group.",
        c.described_group_of_a_commit,
        ends=True,
    ),
    *(
        Allowed(
            api,
            "connection",
            "In a classic group nobody is left without an answer.",
            c.waits_forever_in_kafka,
            ends=True,
        )
        for api in ("JoinGroup", "SyncGroup")
    ),
    Allowed(
        "JoinGroup",
        "Leader",
        "Which member leads, where any may, is the first and not that of a hash order.",
        c.another_leader,
        ends=True,
    ),
    Allowed(
        "JoinGroup",
        "Members",
        "Which member leads, where any may, is the first and not that of a hash order.",
        c.another_leader,
        ends=True,
    ),
)

ALLOWED = (*EVERYWHERE, *CLUSTER, *RECORDS, *CONFIGS, *TOPICS, *GROUPS)
