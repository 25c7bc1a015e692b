"""When a difference may be: questions about a difference, the request and both answers."""

import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from compat_tests.differential.batches import Batch
from compat_tests.differential.compare import ABSENT, Difference
from compat_tests.differential.schemas import apis
from compat_tests.differential.sides import SILENT, Answer, Request
from compat_tests.harness.not_served import SINCE_KAFKA_4_4

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
UNKNOWN_SERVER_ERROR = -1
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
INT32_MAX = 2**31 - 1
SHARE = 2
MAX_TIMESTAMP = -3
NOT_WRITTEN = (("Dead", "PreparingRebalance"), ("Dead", "CompletingRebalance"))
BROKER = 4
RESOURCE_TYPES = (2, 4, 8, 16, 32)
CLOCK_MS = 1_000_000_000_000  # a number above this may be the time of day
NOW_MS = 60_000  # how far from now a time may be that a broker's clock gave during a story
OWN_BROKER_KEYS = (
    *("controller.listener.names", "controller.quorum.voters", "listeners", "node.id", "process.roles"),
    *("log.dir", "log.dirs", "min.insync.replicas", "offsets.topic.replication.factor"),
    *("socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
)
"""How each of the two was started, or what it is."""


class Seen(NamedTuple):
    """A difference and what it was seen in."""

    request: Request
    difference: Difference
    kafka: Answer
    barnabas: Answer
    has_equal_claims: bool = False
    """In this story members have random ids, or there are more of them than partitions to share."""
    groups_with_offsets: frozenset[str] = frozenset()
    """The offsets that were committed in this story, with success."""


def always(seen: Seen) -> bool:
    return True


def leaves(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value of a request or an answer, with the name of its field."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, field)
    else:
        yield field, value


def asked(seen: Seen, *fields: str) -> list[Any]:
    return [value for field, value in leaves(seen.request.body) if field in fields]


# ---- the difference itself


def both_texts(seen: Seen) -> bool:
    return all(isinstance(text, str) and text != ABSENT for text in (seen.difference.kafka, seen.difference.barnabas))


def text_here_only(seen: Seen) -> bool:
    barnabas = seen.difference.barnabas
    return seen.difference.kafka in (None, "") and isinstance(barnabas, str) and barnabas not in ("", ABSENT)


def both_clocks(seen: Seen) -> bool:
    """Says whether both are broker clocks: producers' own timestamps are an hour old."""
    return is_now(seen.difference.kafka) and is_now(seen.difference.barnabas)


def is_now(timestamp: Any) -> bool:
    return isinstance(timestamp, int) and abs(time.time() * 1_000 - timestamp) < NOW_MS


def kafka_failed(seen: Seen) -> bool:
    """Says whether Kafka failed on what differs, or on everything; neighbours have answers of their own."""
    holders = [kafka for kafka, _ in seen.difference.inside]
    if isinstance(seen.difference.kafka, dict):
        holders.append(seen.difference.kafka)
    codes = {code for field, code in leaves(seen.kafka) if field == "ErrorCode"}
    return codes == {UNKNOWN_SERVER_ERROR} or any(each.get("ErrorCode") == UNKNOWN_SERVER_ERROR for each in holders)


def absent_here(seen: Seen) -> bool:
    return bool(seen.difference.barnabas == ABSENT)


def newer_here(seen: Seen) -> bool:
    """A version that only the clients of Kafka 4.4 ask for."""
    api_key = seen.difference.inside[-1][0]["ApiKey"]
    served = {apis()[name].key: versions[-1] for name, versions in SINCE_KAFKA_4_4.items()}
    return bool(served.get(api_key) == seen.difference.barnabas)


def dynamic_voters_here(seen: Seen) -> bool:
    """A quorum whose log says who votes; that of the Kafka which is compared has voters by configuration."""
    found = seen.difference.barnabas
    return bool(seen.difference.kafka == ABSENT and isinstance(found, dict) and found.get("Name") == "kraft.version")


def cut_by_kafka(seen: Seen) -> bool:
    return absent_here(seen) and "CutBytes" in seen.difference.kafka


def key_of_ours(seen: Seen) -> bool:
    return bool(seen.difference.kafka == ABSENT) and str(seen.difference.barnabas["Name"]).startswith("barnabas.")


def absent_broker_key(seen: Seen) -> bool:
    return absent_here(seen) and BROKER in asked(seen, "ResourceType")


def never_answered_by_kafka(seen: Seen) -> bool:
    return seen.kafka == SILENT


def of_a_broker(seen: Seen) -> bool:
    return any(kafka.get("ResourceType") == BROKER for kafka, _ in seen.difference.inside)


def of_a_broker_alone(seen: Seen) -> bool:
    names = {kafka.get("Name") for kafka, _ in seen.difference.inside}
    return of_a_broker(seen) and bool(names & {*OWN_BROKER_KEYS})


def wrong_in_two_ways(seen: Seen) -> bool:
    """Says whether a change can be wrong in two ways: one change of one resource cannot, unless the resource is wrong
    too."""
    resources = seen.request.body.get("Resources") or []
    changes = [config for resource in resources for config in resource.get("Configs") or []]
    has_wrong_name = any(not TOPIC_NAME.fullmatch(str(resource.get("ResourceName"))) for resource in resources)
    is_manifold = max(len(resources), len(changes)) + has_wrong_name > 1
    return is_manifold and 0 not in (seen.difference.kafka, seen.difference.barnabas)


# ---- the request


def wrong_inside(seen: Seen) -> bool:
    return any(isinstance(value, Batch) and value.is_wrong_inside for value in asked(seen, "Records"))


def is_mended_by_kafka(request: Request) -> bool:
    """Says whether Kafka corrects the batch when it reads the records: the two hold different batches from then on."""
    batches = [value for _, value in leaves(request.body) if isinstance(value, Batch)]
    return any(batch.max_timestamp is not None for batch in batches)


def partition_twice(seen: Seen) -> bool:
    return produces_twice(seen.request)


def produces_twice(request: Request) -> bool:
    """Says whether the request produces twice to one partition, under one name or id: no answer shows which batch was
    stored."""
    named = [
        (topic.get("Name"), topic.get("TopicId"), partition.get("Index"))
        for topic in request.body.get("TopicData") or []
        for partition in topic.get("PartitionData") or []
    ]
    return len(set(named)) < len(named)


def about_share_groups(seen: Seen) -> bool:
    return SHARE in asked(seen, "KeyType")


def protocol_twice(seen: Seen) -> bool:
    names = [protocol.get("Name") for protocol in seen.request.body.get("Protocols") or []]
    return seen.kafka == SILENT and len(set(names)) < len(names)


def not_written_yet(seen: Seen) -> bool:
    states = [[group.get("GroupState") for group in side.get("Groups") or []] for side in (seen.kafka, seen.barnabas)]
    return any(pair in NOT_WRITTEN for pair in zip(*states))


def listed_before_it_is_written(seen: Seen) -> bool:
    """Says whether a group is listed before it is written; older versions do not show the state."""
    group = seen.difference.barnabas
    is_ours_alone = seen.difference.kafka == ABSENT and isinstance(group, dict)
    return is_ours_alone and group.get("GroupState", "") in ("", "PreparingRebalance", "CompletingRebalance")


def unreadable_subscription(seen: Seen) -> bool:
    return seen.kafka == SILENT and any(bytes(value).startswith(b"\xff") for value in asked(seen, "Metadata"))


def brings_a_pattern(seen: Seen) -> bool:
    return any(asked(seen, "SubscribedTopicRegex"))


def equal_claims(seen: Seen) -> bool:
    return seen.has_equal_claims


def none_or_empty(seen: Seen) -> bool:
    return bool(seen.difference.kafka is None and seen.difference.barnabas == [])


def newest_of_one_millisecond(seen: Seen) -> bool:
    """Says whether the largest timestamp was asked for, and both answered with one of their own clocks."""
    partitions = seen.difference.inside[-1]
    return MAX_TIMESTAMP in asked(seen, "Timestamp") and all(is_now(each.get("Timestamp")) for each in partitions)


def of_the_groups_topic(seen: Seen) -> bool:
    return "[__consumer_offsets]" in seen.difference.where


def retried(seen: Seen) -> bool:
    return bool(seen.difference.kafka > CLOCK_MS and seen.difference.barnabas == -1)


def empty_group_of_a_commit(seen: Seen) -> bool:
    return absent_here(seen) and has_nothing(seen, seen.difference.kafka)


def described_group_of_a_commit(seen: Seen) -> bool:
    groups = [pair for pair in seen.difference.inside if "GroupState" in pair[0]]
    states = [(kafka["GroupState"], barnabas["GroupState"]) for kafka, barnabas in groups]
    return states == [("Empty", "Dead")] and has_nothing(seen, groups[0][0])


def has_nothing(seen: Seen, group: dict[str, Any]) -> bool:
    """Says whether a group has neither a member, ever, nor an offset."""
    return group.get("ProtocolType") == "" and group["GroupId"] not in seen.groups_with_offsets


def mute_after_null_records(seen: Seen) -> bool:
    return seen.kafka == SILENT and None in asked(seen, "Records")


def unknown_resource_type(seen: Seen) -> bool:
    return any(value not in RESOURCE_TYPES for value in asked(seen, "ResourceType"))


def unknown_operation(seen: Seen) -> bool:
    return any(value not in range(4) for value in asked(seen, "ConfigOperation"))


def partitions_overflow(seen: Seen) -> bool:
    return bool(sum(max(value, 1) for value in asked(seen, "NumPartitions")) > INT32_MAX)


def waits_forever_in_kafka(seen: Seen) -> bool:
    return seen.kafka == SILENT and seen.barnabas.get("ErrorCode") in (UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS)


def another_leader(seen: Seen) -> bool:
    leaders = seen.kafka.get("Leader"), seen.barnabas.get("Leader")
    return bool(seen.kafka.get("ErrorCode") == 0 and "" not in leaders and leaders[0] != leaders[1])
