"""Groups over the wire: every API in every version, sessions and retention on a clock that the tests move."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.testing import Broker
from tests.broker.members import Member, commit_request, committed
from tests.broker.wire import RawClient, good
from tests.broker.witness import Lines

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "connections.max.idle.ms": "9000000000",  # weeks pass here
}
ORDERS = ("orders", 0)
MINUTE = 60


@pytest.fixture(scope="module")
def broker(log: Lines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    data_dir = str(tmp_path_factory.mktemp("groups") / "data")
    with Broker({"orders": 2, "payments": 1}, CONFIG, data_dir=data_dir, report=log) as broker:
        with RawClient(broker.port) as client:
            client.call(FindCoordinatorRequest(coordinator_keys=["any"]))
        yield broker
    assert log.errors() == []


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


@pytest.fixture
def members(broker: Broker) -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def make(group_id: str, **options: object) -> Member:
        member = Member(broker.port, group_id, **options)  # type: ignore[arg-type]
        made.append(member)
        return member

    yield make
    for member in made:
        member.close()


# ---- the coordinator


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_found_in_every_version(broker: Broker, client: RawClient, version: int) -> None:
    if version < 4:
        answers = [client.call(FindCoordinatorRequest(key="group"), version)]
    else:
        answers = client.call(FindCoordinatorRequest(coordinator_keys=["group", "other"]), version).coordinators
        assert [answer.key for answer in answers] == ["group", "other"]
    for answer in answers:
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "127.0.0.1", broker.port)


@pytest.mark.parametrize(
    ("key_type", "version", "code"),
    [
        (2, 6, ErrorCode.UNSUPPORTED_VERSION),  # share groups
        (2, 5, ErrorCode.INVALID_REQUEST),  # which that version does not know
        (9, 6, ErrorCode.INVALID_REQUEST),  # nobody knows
    ],
)
def test_what_is_not_coordinated_here_is_said(client: RawClient, key_type: int, version: int, code: ErrorCode) -> None:
    request = FindCoordinatorRequest(key="me", key_type=key_type, coordinator_keys=["me"] if version >= 4 else ())
    answer = client.call(request, version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (code, -1)
    assert found.error_message


def test_the_first_who_asks_waits_until_the_topic_is_there_with_kafkas_settings() -> None:
    with Broker(config={"offsets.topic.num.partitions": "3"}) as broker, RawClient(broker.port) as client:
        answer = client.call(FindCoordinatorRequest(coordinator_keys=["group"])).coordinators[0]
        assert answer.error_code == 0
        described = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])).topics[0]
        assert described.is_internal
        assert len(described.partitions) == 3
        assert len(described.partitions[0].replica_nodes) == 1  # three are configured, and one broker is there
        assert Path(broker.data_dir, "__consumer_offsets-0").is_dir()


def test_only_the_broker_writes_to_the_topic_of_groups(broker: Broker, client: RawClient) -> None:
    refused = client.produce("__consumer_offsets", good(keys=[b"1", b"2", b"3"]))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with RawClient(broker.port, client_id="__admin_client") as admin:
        batch = good(count=1, keys=[b"\x7f\xff of a kind that nobody knows"])
        assert admin.produce("__consumer_offsets", batch).error_code == 0


def test_a_group_is_not_served_before_anybody_looked_for_its_coordinator() -> None:
    with Broker({"orders": 1}) as broker:
        member = Member(broker.port, "early")
        assert member.join().error_code == ErrorCode.NOT_COORDINATOR
        assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert member.client.call(ListGroupsRequest()).groups == []
        member.close()


# ---- a member's life, version by version


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves(members: Callable[..., Member], group_id: str, version: int) -> None:
    member = members(group_id)
    joined = member.join(version=version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id == member.member_id
    assert [(m.member_id, m.metadata) for m in joined.members] == [(member.member_id, b"topics")]
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    synced = member.sync({member.member_id: b"mine"}, version=min(version, 5))
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert member.heartbeat(version=min(version, 4)) == 0
    left = member.leave(version=min(version, 5))
    assert left.error_code == 0
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_is_given_an_id_before_it_may_join(members: Callable[..., Member], group_id: str) -> None:
    member = members(group_id)
    member.send_join()
    refused = member.joined()
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("test-")
    member.send_join()
    assert member.joined().error_code == 0


def test_members_share_what_the_leader_gives_them(members: Callable[..., Member], group_id: str) -> None:
    first, second = members(group_id), members(group_id)
    first.join_alone()
    second.send_join()
    second.joined()  # its id
    second.send_join()
    assert wait_for_rebalance(first) == ErrorCode.REBALANCE_IN_PROGRESS
    first.send_join()
    assert first.joined().generation_id == second.joined().generation_id == 2
    assert first.is_leader
    assert second.members == [], "only the leader is told who is there"
    second.send_sync()
    assignments = {first.member_id: b"partition 0", second.member_id: b"partition 1"}
    assert first.sync(assignments).assignment == b"partition 0"
    assert second.client.receive().assignment == b"partition 1"


def wait_for_rebalance(member: Member) -> int:
    """The other's join is on its way on another connection."""
    while (code := member.heartbeat()) == 0:
        pass
    return code


def test_a_lost_connection_is_not_a_leave(members: Callable[..., Member], group_id: str) -> None:
    member = members(group_id)
    member.join_alone()
    member.reconnect()
    assert member.heartbeat() == 0


# ---- time


def test_a_session_ends_when_its_member_is_silent(
    broker: Broker, members: Callable[..., Member], group_id: str
) -> None:
    alive, silent = members(group_id, session_timeout_ms=10_000), members(group_id, session_timeout_ms=6_000)
    two_members(alive, silent)
    broker.advance(5)
    assert alive.heartbeat() == 0
    broker.advance(2)
    assert alive.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert silent.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert silent.commit({ORDERS: 5}) == {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}
    assert alive.join().generation_id == 3
    assert alive.members == [alive.member_id]


def two_members(first: Member, second: Member) -> None:
    first.join_alone()
    second.send_join()
    second.joined()
    second.send_join()
    wait_for_rebalance(first)
    first.send_join()
    first.joined()
    second.joined()
    second.send_sync()
    first.sync({first.member_id: b"0", second.member_id: b"1"})
    assert second.client.receive().error_code == 0


def test_a_heartbeat_or_a_commit_keeps_a_session(broker: Broker, members: Callable[..., Member], group_id: str) -> None:
    member = members(group_id, session_timeout_ms=6_000)
    member.join_alone()
    for _ in range(5):
        broker.advance(4)
        assert member.heartbeat() == 0
        broker.advance(4)
        assert member.commit({ORDERS: 1}) == {ORDERS: 0}
    broker.advance(6.001)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_expire_when_their_group_has_been_empty_for_the_retention_time(
    broker: Broker, members: Callable[..., Member], group_id: str, client: RawClient
) -> None:
    member = members(group_id)
    member.join_alone()
    member.commit({ORDERS: 7})
    for _ in range(10):  # time in which the group is alive does not count
        broker.advance(8)
        assert member.heartbeat() == 0
    member.leave()
    broker.advance((10_080 - 20) * MINUTE)
    assert committed(client, group_id, "orders") == {ORDERS: 7}
    broker.advance(31 * MINUTE)  # to the next check after the end
    assert committed(client, group_id, "orders") == {ORDERS: -1}
    assert group_id not in [group.group_id for group in client.call(ListGroupsRequest()).groups]


def test_offsets_of_simple_consumers_expire_counted_from_the_commit(
    broker: Broker, group_id: str, client: RawClient
) -> None:
    client.call(commit_request(group_id, {ORDERS: 1, ("payments", 0): 2}), 8)
    broker.advance(6_000 * MINUTE)
    client.call(commit_request(group_id, {ORDERS: 3}), 8)
    broker.advance(5_000 * MINUTE)
    assert committed(client, group_id) == {ORDERS: 3}


def test_an_old_client_says_itself_how_long_its_offset_is_kept(
    broker: Broker, group_id: str, client: RawClient
) -> None:
    request = commit_request(group_id, {ORDERS: 1})
    request.retention_time_ms = 3_600_000
    assert client.call(request, 4).topics[0].partitions[0].error_code == 0
    broker.advance(55 * MINUTE)
    assert committed(client, group_id) == {ORDERS: 1}
    broker.advance(16 * MINUTE)
    assert committed(client, group_id) == {}


def test_an_old_client_may_want_its_offset_kept_for_ever(broker: Broker, group_id: str, client: RawClient) -> None:
    """The end of such a time is beyond what a record can hold."""
    request = commit_request(group_id, {ORDERS: 1})
    request.retention_time_ms = 2**63 - 1
    assert client.call(request, 4).topics[0].partitions[0].error_code == 0
    broker.advance(20_000 * MINUTE)
    assert committed(client, group_id) == {ORDERS: 1}


# ---- offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(client: RawClient, group_id: str, version: int) -> None:
    request = commit_request(group_id, {ORDERS: 40 + version, ("orders", 1): 1}, metadata="a note")
    for topic in request.topics:
        topic.topic_id = client.topic_id(topic.name)
    answer = client.call(request, version)
    assert [partition.error_code for topic in answer.topics for partition in topic.partitions] == [0, 0]
    assert committed(client, group_id, "orders", partitions=[0, 1]) == {ORDERS: 40 + version, ("orders", 1): 1}


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("is_all", [False, True])
def test_offsets_are_fetched_in_every_version(client: RawClient, group_id: str, version: int, is_all: bool) -> None:
    if is_all and version < 2:
        return  # everything can be asked for since version 2
    client.call(commit_request(group_id, {ORDERS: 11}, metadata="a note"), 8)
    if version < 8:
        topics = None if is_all else [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])]
        answer = client.call(OffsetFetchRequest(group_id=group_id, topics=topics), version)
    else:
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1], topic_id=client.topic_id("orders"))
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None if is_all else [topic])
        (answer,) = client.call(OffsetFetchRequest(groups=[group]), version).groups
        assert answer.group_id == group_id
    assert answer.error_code == 0
    (found,) = answer.topics
    assert found.name == "orders" if version < 10 else found.topic_id == client.topic_id("orders")
    offsets = [(p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in found.partitions]
    assert offsets == [(0, 11, "a note", 0)] + ([] if is_all else [(1, -1, "", 0)])


def test_what_cannot_be_committed_is_refused_partition_by_partition(client: RawClient, group_id: str) -> None:
    request = commit_request(group_id, {ORDERS: 1, ("orders", 7): 1, ("nowhere", 0): 1})
    long_note = OffsetCommitRequestPartition(partition_index=1, committed_offset=1, committed_metadata="x" * 4097)
    request.topics[0].partitions = [*request.topics[0].partitions, long_note]
    answer = client.call(request, 9)
    codes = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
    assert codes == {
        ORDERS: 0,
        ("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(answer.topics) == 2, "one entry for each topic"
    assert committed(client, group_id) == {ORDERS: 1}


def test_a_topic_id_that_nobody_has_is_refused(client: RawClient, group_id: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topic = OffsetCommitRequestTopic(topic_id=bytes(range(16)), partitions=[partition])
    answer = client.call(OffsetCommitRequest(group_id=group_id, member_id="", topics=[topic]), 10)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = OffsetFetchRequestTopics(topic_id=bytes(range(16)), partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id=group_id, topics=[asked])
    (fetched,) = client.call(OffsetFetchRequest(groups=[group]), 10).groups
    assert fetched.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_nobody_commits_to_a_group_that_is_not_there(
    client: RawClient, group_id: str, version: int, code: ErrorCode
) -> None:
    answer = client.call(commit_request(group_id, {ORDERS: 1}, generation_id=3, member_id="somebody"), version)
    assert answer.topics[0].partitions[0].error_code == code


def test_a_member_of_the_past_cannot_commit(members: Callable[..., Member], group_id: str) -> None:
    member = members(group_id)
    member.join_alone()
    assert member.commit({ORDERS: 1}) == {ORDERS: 0}
    member.generation_id -= 1
    assert member.commit({ORDERS: 2}) == {ORDERS: ErrorCode.ILLEGAL_GENERATION}
    member.generation_id += 1
    member.member_id = "somebody else"
    assert member.commit({ORDERS: 3}) == {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}
    assert member.committed("orders") == {ORDERS: 1}


def test_many_groups_are_asked_for_at_once(client: RawClient, group_id: str) -> None:
    for number in range(3):
        client.call(commit_request(f"{group_id}-{number}", {ORDERS: number}), 8)
    asked = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=f"{group_id}-{number}", topics=asked) for number in range(4)]
    answer = client.call(OffsetFetchRequest(groups=groups, require_stable=True), 9)
    assert [group.group_id for group in answer.groups] == [f"{group_id}-{number}" for number in range(4)]
    assert [group.topics[0].partitions[0].committed_offset for group in answer.groups] == [0, 1, 2, -1]


def test_offsets_go_with_their_topic(broker: Broker, client: RawClient, group_id: str) -> None:
    broker.create_topics({"passing": 1})
    client.call(commit_request(group_id, {("passing", 0): 9, ORDERS: 4}), 8)
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="passing")], timeout_ms=1_000))
    broker.create_topics({"passing": 1})
    assert committed(client, group_id) == {ORDERS: 4}


# ---- people


def test_groups_are_listed_by_state_and_type(members: Callable[..., Member], group_id: str, client: RawClient) -> None:
    stable, empty = f"{group_id}-stable", f"{group_id}-empty"
    members(stable).join_alone()
    client.call(commit_request(empty, {ORDERS: 1}), 8)

    def listed(**filters: list[str]) -> dict[str, tuple[str, str, str]]:
        groups = client.call(ListGroupsRequest(**filters)).groups
        mine = [group for group in groups if group.group_id.startswith(group_id)]
        return {group.group_id: (group.group_state, group.group_type, group.protocol_type) for group in mine}

    both = {stable: ("Stable", "classic", "consumer"), empty: ("Empty", "classic", "")}
    assert listed() == both
    assert listed(states_filter=["stable"]) == {stable: both[stable]}
    assert listed(states_filter=["Empty", "Dead"]) == {empty: both[empty]}
    assert listed(types_filter=["Classic"]) == both
    assert listed(types_filter=["consumer"]) == listed(types_filter=["nonsense"]) == {}


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described(members: Callable[..., Member], group_id: str, client: RawClient, version: int) -> None:
    member = members(group_id)
    member.join_alone()
    request = DescribeGroupsRequest(groups=[group_id, "nobody"], include_authorized_operations=True)
    group, missing = client.call(request, version).groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0, "Stable", "consumer", "range",
    )  # fmt: skip
    (described,) = group.members
    assert (described.member_id, described.client_id, described.client_host) == (
        member.member_id, "test", "/127.0.0.1",
    )  # fmt: skip
    assert (described.member_metadata, described.member_assignment) == (b"topics", b"everything")
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert (missing.error_message is not None) == (version >= 6)
    if version >= 3:
        assert group.authorized_operations == 3400


def test_a_classic_group_is_none_of_the_consumer_protocol(client: RawClient, group_id: str) -> None:
    client.call(commit_request(group_id, {ORDERS: 1}), 8)
    request = ConsumerGroupDescribeRequest(group_ids=[group_id, ""], include_authorized_operations=False)
    group, nameless = client.call(request).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a consumer group" in group.error_message
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_group_is_deleted_when_nobody_is_in_it(
    members: Callable[..., Member], group_id: str, client: RawClient
) -> None:
    member = members(group_id)
    member.join_alone()
    member.commit({ORDERS: 1})
    request = DeleteGroupsRequest(groups_names=[group_id, "nobody"])
    codes = {result.group_id: result.error_code for result in client.call(request).results}
    assert codes == {group_id: ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    texts = [result.error_message for result in client.call(request, 3).results]
    assert texts == [f"{group_id} has 1 members", "there is no group nobody"]
    assert {result.error_message for result in client.call(request, 2).results} == {None}
    member.leave()
    assert client.call(request).results[0].error_code == 0
    assert committed(client, group_id) == {}
    assert client.call(request).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_single_offsets_are_deleted(client: RawClient, group_id: str) -> None:
    client.call(commit_request(group_id, {ORDERS: 1, ("orders", 1): 2, ("payments", 0): 3}), 8)

    def delete(group: str, topic: str, *partitions: int) -> tuple[int, list[int]]:
        asked = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        request = OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=asked)])
        answer = client.call(request)
        return answer.error_code, [p.error_code for t in answer.topics for p in t.partitions]

    assert delete(group_id, "orders", 0) == (0, [0])
    assert committed(client, group_id) == {("orders", 1): 2, ("payments", 0): 3}
    assert delete(group_id, "orders", 0) == (0, [0]), "what is gone may be deleted"
    assert delete(group_id, "nowhere", 0) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert delete("nobody", "orders", 0) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert delete("", "orders", 0) == (ErrorCode.INVALID_GROUP_ID, [])


# ---- what survives


@pytest.mark.parametrize("flush_messages", [None, 1])
def test_groups_go_on_after_a_restart(tmp_path: Path, flush_messages: int | None) -> None:
    """Also where every commit waits for the disk."""
    data_dir = str(tmp_path / "data")
    with Broker({"orders": 2}, CONFIG, data_dir=data_dir) as broker:
        member = Member(broker.port, "survivors")
        member.find_coordinator()
        if flush_messages is not None:
            configure(member.client, "__consumer_offsets", "flush.messages", str(flush_messages))
        member.join_alone()
        assert member.commit({ORDERS: 5, ("orders", 1): 6}) == {ORDERS: 0, ("orders", 1): 0}
    with Broker(config=CONFIG, data_dir=data_dir) as broker:
        member.reconnect(broker.port)
        assert member.committed() == {ORDERS: 5, ("orders", 1): 6}
        assert member.heartbeat() == 0, "its session goes on, in the same generation"
        assert member.commit({ORDERS: 8}) == {ORDERS: 0}
        broker.advance(10.001)
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        member.close()


def configure(client: RawClient, topic: str, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == 0


def test_a_member_that_waits_for_others_is_told_when_the_broker_stops() -> None:
    with Broker({"orders": 1}, {**CONFIG, "group.initial.rebalance.delay.ms": "60000"}) as broker:
        member = Member(broker.port, "waiting")
        member.find_coordinator()
        member.send_join()
        member.joined()
        member.send_join()
        broker.stop()
        assert member.joined().error_code == ErrorCode.NOT_COORDINATOR
        member.close()


def test_a_fetch_of_everything_gives_the_ids_of_topics(client: RawClient, group_id: str) -> None:
    client.call(commit_request(group_id, {ORDERS: 4}), 8)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    (fetched,) = client.call(OffsetFetchRequest(groups=[group]), 10).groups
    assert [topic.topic_id for topic in fetched.topics] == [client.topic_id("orders")]


def test_when_one_of_ten_leaves_one_round_of_heartbeats_is_enough(
    members: Callable[..., Member], group_id: str
) -> None:
    """Members that send their heartbeats promptly have everything again within one interval."""
    ten = [members(group_id) for _ in range(10)]
    ten[0].join_alone()
    for member in ten[1:]:
        member.send_join()
        member.joined()
        member.send_join()
    assert wait_for_rebalance(ten[0]) == ErrorCode.REBALANCE_IN_PROGRESS
    join_together(ten[:1], ten[1:])
    ten[9].leave()
    rest = ten[:9]
    assert {member.heartbeat() for member in rest} == {ErrorCode.REBALANCE_IN_PROGRESS}
    join_together(rest, ())
    assert {member.heartbeat() for member in rest} == {0}
    assert len(next(member for member in rest if member.is_leader).members) == 9


def join_together(to_ask: Sequence[Member], asked: Sequence[Member]) -> None:
    """Every one of them joins, and fetches what the leader gives it."""
    for member in to_ask:
        member.send_join()
    everybody = [*to_ask, *asked]
    assert {member.joined().error_code for member in everybody} == {0}
    leader = next(member for member in everybody if member.is_leader)
    for member in everybody:
        member.send_sync({each.member_id: each.member_id.encode() for each in everybody} if member is leader else None)
    assert [member.client.receive().assignment for member in everybody] == [
        member.member_id.encode() for member in everybody
    ]


def test_a_request_about_ten_thousand_groups_does_not_hold_up_the_others(broker: Broker, client: RawClient) -> None:
    names = [f"nobody-{number}" for number in range(10_000)]
    client.send(DescribeGroupsRequest(groups=names))
    with RawClient(broker.port) as other:
        assert other.call(ListGroupsRequest()).error_code == 0
    described = client.receive().groups
    assert [group.group_id for group in described] == names
    deleted = client.call(DeleteGroupsRequest(groups_names=names)).results
    assert {result.error_code for result in deleted} == {ErrorCode.GROUP_ID_NOT_FOUND}
