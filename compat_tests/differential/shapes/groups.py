"""Groups and their offsets, one request at a time; stories/groups.py has members that go on."""

import struct
from collections.abc import Iterable
from typing import Any

from compat_tests.differential.world import INT32_MAX, INT64_MAX, STRANGE_ID, World


def subscription(topics: Iterable[str], version: int = 1) -> bytes:
    """Returns what members of classic groups send each other: version, topics, user data, owned partitions."""
    names = [topic.encode() for topic in topics]
    data = struct.pack(">hi", version, len(names)) + b"".join(struct.pack(">h", len(name)) + name for name in names)
    data += struct.pack(">i", -1)
    data += struct.pack(">i", 0) if version >= 1 else b""
    data += struct.pack(">i", -1) if version >= 2 else b""
    return data + (struct.pack(">h", -1) if version >= 3 else b"")


def assignment(partitions: dict[str, list[int]]) -> bytes:
    data = struct.pack(">hi", 1, len(partitions))
    for topic, numbers in partitions.items():
        data += struct.pack(">h", len(topic)) + topic.encode()
        data += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data + struct.pack(">i", -1)


def join_group(world: World, version: int) -> dict[str, Any]:
    metadata = world.pick(subscription([world.known_topic()], world.random.randrange(4)), b"", b"\0", b"junk", p=0.1)
    protocols = [{"Name": name, "Metadata": metadata} for name in world.one(["range"], ["range", "roundrobin"])]
    return {
        "GroupId": world.group(),
        "SessionTimeoutMs": world.pick(30_000, 0, -1, 1, 1_800_001, INT32_MAX),
        "RebalanceTimeoutMs": world.pick(60_000, INT32_MAX, p=0.1),
        "MemberId": world.pick("", world.member(), p=0.4),
        "GroupInstanceId": world.instance(),
        "ProtocolType": world.pick("consumer", "", "connect", p=0.1),
        "Protocols": world.pick(protocols, [], [{"Name": "", "Metadata": metadata}], p=0.1),
        "Reason": world.pick(None, "", "because", "x" * 400),
    }


def sync_group(world: World, version: int) -> dict[str, Any]:
    def assigned() -> dict[str, Any]:
        given = assignment({world.known_topic(): [0]})
        return {"MemberId": world.member(), "Assignment": world.pick(given, b"", b"junk")}

    return {
        "GroupId": world.group(),
        "GenerationId": world.generation(),
        "MemberId": world.member(),
        "GroupInstanceId": world.instance(),
        "ProtocolType": world.pick("consumer", None, "connect", ""),
        "ProtocolName": world.pick("range", None, "roundrobin", ""),
        "Assignments": world.some(assigned, 2),
    }


def heartbeat(world: World, version: int) -> dict[str, Any]:
    return {
        "GroupId": world.group(),
        "GenerationId": world.generation(),
        "MemberId": world.member(),
        "GroupInstanceId": world.instance(),
    }


def leave_group(world: World, version: int) -> dict[str, Any]:
    def member() -> dict[str, Any]:
        return {"MemberId": world.member(), "GroupInstanceId": world.instance(), "Reason": world.one(None, "", "bye")}

    return {"GroupId": world.group(), "MemberId": world.member(), "Members": world.some(member, 2)}


def offset_commit(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        return {
            "PartitionIndex": world.partition(),
            "CommittedOffset": world.pick(world.random.randrange(100), -1, -2, INT64_MAX, -INT64_MAX, p=0.2),
            "CommittedLeaderEpoch": world.leader_epoch(),
            "CommittedMetadata": world.pick("note", None, "", "x" * 4096, "x" * 4097, "é" * 2100, p=0.3),
        }

    def topic() -> dict[str, Any]:
        return {**world.topic_entry(version, 10), "Partitions": world.some(partition, 2)}

    from_outside = world.random.random() < 0.7  # nobody's member, as tools are
    return {
        "GroupId": world.group(),
        "GenerationIdOrMemberEpoch": -1 if from_outside else world.generation(),
        "MemberId": "" if from_outside else world.member(),
        "GroupInstanceId": None if from_outside else world.instance(),
        "RetentionTimeMs": world.pick(-1, 0, 5_000_000),
        "Topics": world.some(topic, 2),
    }


def offset_fetch(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        return {**world.topic_entry(version, 10), "PartitionIndexes": world.some(world.partition, 3)}

    def topics() -> list[Any] | None:
        return world.pick(world.some(topic, 2), None, p=0.3) if version >= 2 else world.some(topic, 2)

    def group() -> dict[str, Any]:
        member, epoch = world.pick((None, -1), (world.member(), world.generation()), ("", -1), p=0.25)
        return {"GroupId": world.group(), "MemberId": member, "MemberEpoch": epoch, "Topics": topics()}

    return {
        "GroupId": world.group(),
        "Topics": topics(),
        "Groups": world.some(group, 2),
        "RequireStable": world.flag(),
    }


def offset_delete(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        partitions = world.some(lambda: {"PartitionIndex": world.partition()}, 2)
        return {"Name": world.topic(), "Partitions": partitions}

    return {"GroupId": world.group(), "Topics": world.some(topic, 2)}


def find_coordinator(world: World, version: int) -> dict[str, Any]:
    return {
        "Key": world.group(),
        "KeyType": world.pick(0, -1, 2, 9, p=0.1),
        "CoordinatorKeys": world.some(world.group, 3),
    }


def describe_groups(world: World, version: int) -> dict[str, Any]:
    return {"Groups": world.some(world.group, 2), "IncludeAuthorizedOperations": world.flag()}


def list_groups(world: World, version: int) -> dict[str, Any]:
    return {
        "StatesFilter": world.pick([], ["Stable"], ["empty", "PreparingRebalance"], ["nope"], [""], p=0.6),
        "TypesFilter": world.pick([], ["classic"], ["Consumer"], ["consumer", "classic"], ["nope"], [""], p=0.5),
    }


def delete_groups(world: World, version: int) -> dict[str, Any]:
    return {"GroupsNames": world.some(world.group, 2)}


BLANK = (" ", "\t")
"""Ids that are neither empty nor a name."""


def consumer_group_heartbeat(world: World, version: int) -> dict[str, Any]:
    owned = [{"TopicId": world.pick(world.topic_id(), STRANGE_ID), "Partitions": [0, 1]}]
    joins = world.random.random() < 0.6
    return {
        "GroupId": world.pick(f"{world.prefix}-new-group", world.group(), world.group(), *BLANK, p=0.35),
        "MemberId": world.pick(world.one("consumer-1", "consumer-2"), "", world.member(), *BLANK, p=0.3),
        "MemberEpoch": 0 if joins else world.one(-1, -2, 1, 2, 0, -3),
        "InstanceId": world.pick(world.instance(), *BLANK, p=0.05),
        "RackId": world.pick(None, "", "rack", *BLANK, p=0.15),
        "RebalanceTimeoutMs": world.pick(60_000 if joins else -1, 0, -7, 60_000, p=0.1),
        "SubscribedTopicNames": world.pick([world.known_topic()] if joins else None, [], None, [world.topic()], p=0.15),
        "SubscribedTopicRegex": world.pick(None, "", "(", p=0.1),
        "ServerAssignor": world.pick(None, "uniform", "range", "nope", "", p=0.2),
        "TopicPartitions": world.pick([] if joins else None, None, owned, p=0.1),
    }


def consumer_group_describe(world: World, version: int) -> dict[str, Any]:
    def group() -> str:
        return world.pick(f"{world.prefix}-new-group", world.group(), p=0.5)

    return {"GroupIds": world.some(group, 2), "IncludeAuthorizedOperations": world.flag()}


SHAPES = {
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave_group,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "OffsetDelete": offset_delete,
    "FindCoordinator": find_coordinator,
    "DescribeGroups": describe_groups,
    "ListGroups": list_groups,
    "DeleteGroups": delete_groups,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "ConsumerGroupDescribe": consumer_group_describe,
}
