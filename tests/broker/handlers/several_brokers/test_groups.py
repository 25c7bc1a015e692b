"""Groups that another broker coordinates, or coordinates from now on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.promise import Promise, resolved
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.testing import Broker
from tests.broker.handlers.test_groups import wait_for_rebalance
from tests.broker.handlers.test_produce import disk_that_does_not_answer
from tests.broker.members import Member, commit_request
from tests.broker.siblings import (
    SIBLING,
    SIBLING_PORT,
    US,
    create,
    fence,
    learn_of_new_leader,
    move,
    on_loop,
    register,
)
from tests.broker.wire import RawClient

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
OFFSETS = "__consumer_offsets"


def group_of(partition: int, partitions: int = 2) -> str:
    return next(name for name in map("group-{}".format, range(100)) if java_hash(name) % partitions == partition)


OURS, THEIRS = group_of(0), group_of(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"orders": 1}) as broker:
        register(broker)
        create(broker, OFFSETS, [US], [SIBLING], cleanup_policy="compact")
        yield broker


@pytest.fixture
def lone() -> Iterator[Broker]:
    """A broker that coordinates every group, until a test moves them."""
    with Broker({"orders": 1}) as broker:
        register(broker)
        create(broker, OFFSETS, [US], cleanup_policy="compact")
        yield broker


# ---- who does not coordinate a group says so


def offset_fetch(version: int) -> OffsetFetchRequest:
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=THEIRS, topics=topics if version < 10 else [])]
        )
    asked = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    return OffsetFetchRequest(group_id=THEIRS, topics=[asked])


def leave_group(version: int) -> LeaveGroupRequest:
    if version >= 3:
        return LeaveGroupRequest(group_id=THEIRS, members=[MemberIdentity(member_id="me")])
    return LeaveGroupRequest(group_id=THEIRS, member_id="me")


def offset_delete(_version: int) -> OffsetDeleteRequest:
    partition = OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest(
        group_id=THEIRS, topics=[OffsetDeleteRequestTopic(name="orders", partitions=[partition])]
    )


def join_group(_version: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=THEIRS,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync_group(_version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=THEIRS,
        generation_id=1,
        member_id="me",
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    )


def consumer_group_heartbeat(_version: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=THEIRS,
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


REQUESTS: dict[str, tuple[range, Callable[[int], Any]]] = {
    "ConsumerGroupDescribe": (
        range(0, 2),
        lambda _: ConsumerGroupDescribeRequest(group_ids=[THEIRS], include_authorized_operations=False),
    ),
    "ConsumerGroupHeartbeat": (range(0, 2), consumer_group_heartbeat),
    "DeleteGroups": (range(0, 3), lambda _: DeleteGroupsRequest(groups_names=[THEIRS])),
    "DescribeGroups": (range(0, 7), lambda _: DescribeGroupsRequest(groups=[THEIRS])),
    "Heartbeat": (range(0, 5), lambda _: HeartbeatRequest(group_id=THEIRS, generation_id=1, member_id="me")),
    "JoinGroup": (range(0, 10), join_group),
    "LeaveGroup": (range(0, 6), leave_group),
    "OffsetCommit": (range(2, 10), lambda _: commit_request(THEIRS, {("orders", 0): 1})),
    "OffsetDelete": (range(0, 1), offset_delete),
    "OffsetFetch": (range(1, 11), offset_fetch),
    "SyncGroup": (range(0, 6), sync_group),
}


def codes_in(message: Any) -> set[int]:
    """Every error code that an answer holds, however deep."""
    if isinstance(message, (list, tuple)):
        return {code for one in message for code in codes_in(one)}
    names = getattr(type(message), "__slots__", ()) or getattr(message, "__dict__", ())
    found = {message.error_code} if hasattr(message, "error_code") else set()
    return found.union(*(codes_in(getattr(message, name)) for name in names if not name.startswith("__")))


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, (versions, _) in REQUESTS.items() for version in versions]
)
def test_who_does_not_coordinate_a_group_says_so(client: RawClient, name: str, version: int) -> None:
    answer = client.call(REQUESTS[name][1](version), version)
    assert codes_in(answer) - {NONE} == {NOT_COORDINATOR}


@pytest.mark.parametrize(
    ("request_", "groups_of", "expected"),
    [
        (
            OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in (OURS, THEIRS)]
            ),
            lambda answer: answer.groups,
            [NONE, NOT_COORDINATOR],
        ),
        (
            DescribeGroupsRequest(groups=[OURS, THEIRS]),
            lambda answer: answer.groups,
            [ErrorCode.GROUP_ID_NOT_FOUND, NOT_COORDINATOR],
        ),
        (
            DeleteGroupsRequest(groups_names=[OURS, THEIRS]),
            lambda answer: answer.results,
            [ErrorCode.GROUP_ID_NOT_FOUND, NOT_COORDINATOR],
        ),
        (
            ConsumerGroupDescribeRequest(group_ids=[OURS, THEIRS], include_authorized_operations=False),
            lambda answer: answer.groups,
            [ErrorCode.GROUP_ID_NOT_FOUND, NOT_COORDINATOR],
        ),
    ],
)
def test_of_many_groups_each_has_an_answer_of_its_own(
    client: RawClient, request_: Any, groups_of: Callable[[Any], Any], expected: list[int]
) -> None:
    assert [group.error_code for group in groups_of(client.call(request_))] == expected


# ---- where a group is coordinated


def coordinator(client: RawClient, group_id: str, version: int) -> tuple[int, int, str, int]:
    request = (
        FindCoordinatorRequest(key=group_id) if version < 4 else FindCoordinatorRequest(coordinator_keys=[group_id])
    )
    answer = client.call(request, version)
    found = answer if version < 4 else answer.coordinators[0]
    return found.error_code, found.node_id, found.host, found.port


@pytest.mark.parametrize("version", range(0, 7))
def test_a_group_is_coordinated_by_the_leader_of_its_partition(broker: Broker, client: RawClient, version: int) -> None:
    assert coordinator(client, OURS, version) == (NONE, US, "127.0.0.1", broker.port)
    assert coordinator(client, THEIRS, version) == (NONE, SIBLING, "127.0.0.1", SIBLING_PORT)


@pytest.mark.parametrize("version", [0, 4])
def test_a_group_whose_leader_is_down_has_no_coordinator_for_now(lone: Broker, version: int) -> None:
    with RawClient(lone.port) as client:
        move(lone, OFFSETS, SIBLING)
        fence(lone)
        assert coordinator(client, OURS, version) == (NOT_AVAILABLE, -1, "", -1)
        move(lone, OFFSETS, -1)
        assert coordinator(client, OURS, version) == (NOT_AVAILABLE, -1, "", -1)


# ---- groups that move


def listed(client: RawClient) -> list[str]:
    answer = client.call(ListGroupsRequest())
    assert answer.error_code == NONE
    return [group.group_id for group in answer.groups]


def test_what_a_broker_coordinates_no_more_it_forgets_and_what_comes_back_it_loads(lone: Broker) -> None:
    with RawClient(lone.port) as client:
        member = Member(lone.port, "readers")
        assert member.commit({("orders", 0): 7}) == {("orders", 0): NONE}
        assert listed(client) == ["readers"]
        move(lone, OFFSETS, SIBLING)
        assert member.commit({("orders", 0): 8}) == {("orders", 0): NOT_COORDINATOR}
        assert listed(client) == []
        move(lone, OFFSETS, US)
        assert member.committed("orders") == {("orders", 0): 7}
        assert listed(client) == ["readers"]
        member.close()


def test_a_member_that_waits_for_others_to_join_is_told_at_once_when_the_group_moves(lone: Broker) -> None:
    first, second = Member(lone.port, "readers"), Member(lone.port, "readers")
    first.join_alone()
    second.send_join()
    second.joined()  # its id
    second.send_join()
    assert wait_for_rebalance(first) == ErrorCode.REBALANCE_IN_PROGRESS
    move(lone, OFFSETS, SIBLING)
    assert second.joined().error_code == NOT_COORDINATOR
    assert first.heartbeat() == NOT_COORDINATOR
    first.close()
    second.close()


def test_a_member_that_waits_for_its_assignment_is_told_at_once_when_the_group_moves(lone: Broker) -> None:
    first, second = Member(lone.port, "readers"), Member(lone.port, "readers")
    first.join_alone()
    second.send_join()
    second.joined()  # its id
    second.send_join()
    assert wait_for_rebalance(first) == ErrorCode.REBALANCE_IN_PROGRESS
    first.send_join()
    assert first.joined().generation_id == second.joined().generation_id == 2
    second.send_sync()
    while not on_loop(lone, lambda: awaits_assignment(lone, "readers")):
        pass
    move(lone, OFFSETS, SIBLING)
    assert second.client.receive().error_code == NOT_COORDINATOR
    first.close()
    second.close()


def awaits_assignment(broker: Broker, group_id: str) -> bool:
    shard = broker._server.node.groups._runtime.shard(0).machine
    group = shard._context.find(group_id, ClassicGroup)
    return group is not None and any(member.awaiting_sync is not None for member in group.members.values())


def test_a_commit_that_waits_is_told_at_once_when_its_group_moves() -> None:
    with Broker({"orders": 1}) as broker, RawClient(broker.port) as client, RawClient(broker.port) as other:
        register(broker)
        create(broker, OFFSETS, [US], cleanup_policy="compact", flush_messages="1")
        log = on_loop(broker, lambda: broker._server.node.replicas.partition(OFFSETS, 0).log)
        with disk_that_does_not_answer(broker):
            client.send(commit_request("readers", {("orders", 0): 1}), 9)
            while not on_loop(broker, lambda: log.log_end_offset):
                pass  # until it is written
            other.send(ListGroupsRequest())
            while len(on_loop(broker, lambda: broker._server.node.groups._runtime.shard(0)._waiting._waiting)) < 2:
                pass  # until both wait
            learn_of_new_leader(broker, OFFSETS, SIBLING)
            assert client.receive().topics[0].partitions[0].error_code == NOT_COORDINATOR
            groups = other.receive()
            assert (groups.error_code, list(groups.groups)) == (NONE, []), "the new coordinator lists it"


def loaded_partitions(broker: Broker) -> list[int]:
    groups = broker._server.node.coordinators._groups
    return [] if groups is None else [index for index, shard in groups._runtime._shards.items() if shard.is_loaded]


def test_groups_of_another_broker_are_loaded_before_anybody_asks_for_them() -> None:
    with Broker() as broker:
        register(broker)
        create(broker, OFFSETS, [SIBLING])
        assert broker._server.node.coordinators._groups is None
        move(broker, OFFSETS, US, replicas=[US], isr=[US])
        while on_loop(broker, lambda: loaded_partitions(broker)) != [0]:
            pass  # until it is loaded, between requests


# ---- topics that the controller has created, and this broker does not know so far


class Elsewhere:
    """Creates topics on a controller that answers sooner than its records reach this broker."""

    def create(self, _names: list[str]) -> Promise[dict[str, ErrorCode]]:
        return resolved({})


@pytest.fixture
def behind() -> Iterator[Broker]:
    with Broker() as broker:
        broker._server.node.topic_creation = Elsewhere()  # type: ignore[assignment]
        yield broker


def wait_until_it_waits(broker: Broker) -> None:
    while not on_loop(broker, lambda: broker._server.node._image_waiters):
        pass


METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
COORDINATOR = FindCoordinatorRequest(coordinator_keys=["readers"])


def test_the_coordinator_is_found_when_the_new_topic_is_known_here(behind: Broker) -> None:
    with RawClient(behind.port) as client:
        client.send(COORDINATOR)
        wait_until_it_waits(behind)
        create(behind, OFFSETS, [US])
        (found,) = client.receive().coordinators
        assert (found.error_code, found.node_id) == (NONE, US)


def test_metadata_tell_of_a_new_topic_when_it_is_known_here(behind: Broker) -> None:
    with RawClient(behind.port) as client:
        client.send(METADATA)
        wait_until_it_waits(behind)
        topic_id = create(behind, "orders", [US]).topic_id
        (found,) = client.receive().topics
        assert (found.error_code, found.topic_id) == (NONE, topic_id)


def test_nobody_waits_for_long(behind: Broker) -> None:
    with RawClient(behind.port) as client, RawClient(behind.port) as other:
        client.send(COORDINATOR)
        wait_until_it_waits(behind)
        other.send(METADATA)
        while len(on_loop(behind, lambda: behind._server.node._image_waiters)) < 2:
            pass
        behind.advance(2)
        assert client.receive().coordinators[0].error_code == NOT_AVAILABLE
        assert other.receive().topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
