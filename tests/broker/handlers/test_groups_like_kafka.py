"""Answers to group requests that are out of the ordinary, held to what Apache Kafka 4.3 answered to the same bytes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.testing import Broker
from tests.broker.members import Member, commit_request
from tests.broker.wire import RawClient
from tests.broker.witness import Lines

CONFIG = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
OK, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
Partitions = Sequence[tuple[str, Sequence[int]]]
Answers = list[tuple[str, list[tuple[int, int]]]]


@pytest.fixture(scope="module")
def broker(log: Lines) -> Iterator[Broker]:
    with Broker({"orders": 2, "payments": 1}, CONFIG, report=log) as broker:
        with RawClient(broker.port) as client:
            client.call(FindCoordinatorRequest(coordinator_keys=["any"]))
        yield broker
    assert log.errors() == []


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


def answers(topics: Sequence[Any]) -> Answers:
    return [
        (topic.name, [(partition.partition_index, partition.error_code) for partition in topic.partitions])
        for topic in topics
    ]


def commit(client: RawClient, group_id: str, topics: Partitions, metadata: str = "") -> Answers:
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )
    return answers(client.call(request, 9).topics)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([("orders", [])], []),  # nothing was asked for
        ([("nowhere", [])], [("nowhere", [])]),  # but this one cannot be
        ([("nowhere", [0]), ("nowhere", [1])], [("nowhere", [(0, UNKNOWN), (1, UNKNOWN)])]),
        ([("orders", [5, 1])], [("orders", [(5, UNKNOWN), (1, OK)])]),  # one entry, what was refused first
        ([("orders", [0]), ("payments", [])], [("orders", [(0, OK)])]),
        ([], []),
    ],
)
def test_the_topics_of_a_commit(client: RawClient, group_id: str, topics: Partitions, expected: Answers) -> None:
    assert commit(client, group_id, topics) == expected


@pytest.mark.parametrize(
    ("topics", "metadata"),
    [
        ([], ""),
        ([("orders", [])], ""),
        ([("nowhere", [0])], ""),
        ([("orders", [7])], ""),
        ([("orders", [0])], "x" * 4097),  # refused, partition by partition
    ],
)
def test_a_commit_of_nothing_makes_no_group(
    client: RawClient, group_id: str, topics: Partitions, metadata: str
) -> None:
    commit(client, group_id, topics, metadata)
    (group,) = client.call(DescribeGroupsRequest(groups=[group_id])).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([("orders", [9, 0])], [("orders", [(9, UNKNOWN), (0, OK)])]),  # one entry, what was refused first
        ([("nowhere", [])], [("nowhere", [])]),
        ([("orders", [])], []),
        (
            [("orders", [0, 9]), ("payments", [0]), ("orders", [1])],
            [("orders", [(9, UNKNOWN), (0, OK), (1, OK)]), ("payments", [(0, OK)])],
        ),
        ([("nowhere", [0]), ("nowhere", [0])], [("nowhere", [(0, UNKNOWN), (0, UNKNOWN)])]),
        ([("orders", [0]), ("orders", [0])], [("orders", [(0, OK)]), ("orders", [(0, OK)])]),  # nothing to merge with
    ],
)
def test_the_topics_of_a_deletion(client: RawClient, group_id: str, topics: Partitions, expected: Answers) -> None:
    client.call(commit_request(group_id, {("orders", 0): 1}), 9)
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ],
    )
    response = client.call(request)
    assert response.error_code == 0
    assert answers(response.topics) == expected


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None), (None, None)])
@pytest.mark.parametrize("is_member", [True, False])
def test_from_v5_on_a_sync_must_name_its_protocol(
    broker: Broker,
    client: RawClient,
    group_id: str,
    is_member: bool,
    protocol_type: str | None,
    protocol_name: str | None,
) -> None:
    member = Member(broker.port, group_id)
    if is_member:
        member.join()
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=member.generation_id,
        member_id=member.member_id or "nobody",
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=(),
    )
    assert client.call(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.call(request, 4).error_code == (ErrorCode.NONE if is_member else ErrorCode.UNKNOWN_MEMBER_ID)
    member.close()


@pytest.mark.parametrize(("version", "expected"), [(9, None), (7, None), (6, "")])
def test_a_protocol_with_an_empty_name_is_answered_as_none(
    client: RawClient, group_id: str, version: int, expected: str | None
) -> None:
    joins = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id="instance",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="", metadata=b"")],
    )
    joined = client.call(joins, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (ErrorCode.NONE, 1, expected)


def test_a_consumer_that_brings_no_id_gets_one_in_kafka_s_notation(client: RawClient, group_id: str) -> None:
    joins = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["nope"],
        topic_partitions=[],
    )
    assert re.fullmatch(r"\w[\w-]{21}", client.call(joins, 0).member_id, re.ASCII)
