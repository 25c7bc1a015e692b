"""The life of a consumer group: members come and go, topics change, time passes, the broker restarts."""

from collections.abc import Callable

import pytest

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.sessions import REBALANCE, SESSION
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode, KafkaError, KafkaStorageError, NonEmptyGroup
from barnabas.protocol.stored.group_record_serde import encode_key, encode_value
from barnabas.protocol.stored.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
)
from barnabas.replication.metadata.image import BrokerImage, ConfigResource
from tests.broker.groups.consumer.client import (
    GROUP,
    Consumer,
    consumer_harness,
    group_of,
    heartbeat_request,
    join_request,
    send,
    settle,
    topic_id,
    with_topic,
    without_topic,
)
from tests.broker.groups.harness import GroupHarness, code_of, value_of

ORDERS, BILLS = topic_id("orders"), topic_id("bills")


def two_consumers(**topics: int) -> tuple[GroupHarness, Consumer, Consumer]:
    harness = consumer_harness(None, **(topics or {"orders": 4}))
    a, b = Consumer(harness, "a", *harness.image.topics), Consumer(harness, "b", *harness.image.topics)
    a.join()
    b.join()
    return harness, a, b


def test_partitions_move_once_their_owner_has_given_them_up() -> None:
    harness, a, b = two_consumers()
    assert (a.partitions("orders"), b.partitions("orders")) == ([0, 1, 2, 3], [])
    assert group_of(harness).state_name == "Reconciling"
    a.beat()  # it is told to keep two, and gives the others up
    assert a.partitions("orders") == [0, 1]
    b.beat()
    assert b.partitions("orders") == []
    a.beat()  # it says that it did
    b.beat()
    assert b.partitions("orders") == [2, 3]
    assert group_of(harness).state_name == "Stable"


def test_states_from_empty_to_empty() -> None:
    harness, a, b = two_consumers()
    group = group_of(harness)
    states = [group.state_name]
    settle(a, b)
    states.append(group.state_name)
    b.leave()
    states.append(group.state_name)
    settle(a)
    states.append(group.state_name)
    a.leave()
    states.append(group.state_name)
    assert states == ["Reconciling", "Stable", "Assigning", "Stable", "Empty"]
    assert not harness.timer_keys()


def test_a_member_that_is_silent_for_a_session_is_removed() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    harness.advance(44_000)
    a.beat()
    harness.advance(1_500)
    assert list(group_of(harness).members) == ["a"]
    a.beat()
    assert a.partitions("orders") == [0, 1, 2, 3]
    assert code_of(send(harness, heartbeat_request("b", b.epoch))) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_removed() -> None:
    harness, a, b = two_consumers()
    for _ in range(7):
        send(harness, heartbeat_request("a", a.epoch))  # alive, and not a word about what it owns
        b.beat()
        harness.advance(10_000)
    assert list(group_of(harness).members) == ["b"]
    assert harness.report.having("it did not give up partitions in 60000 ms")
    b.beat()
    assert b.partitions("orders") == [0, 1, 2, 3]


def test_no_other_news_from_a_member_win_it_time_to_give_up() -> None:
    harness, a, b = two_consumers()
    for number in range(7):
        send(harness, heartbeat_request("a", a.epoch, rack_id=f"rack-{number}"))
        b.beat()
        harness.advance(10_000)
    assert list(group_of(harness).members) == ["b"]


def test_giving_up_stops_the_rebalance_timer() -> None:
    harness, a, _ = two_consumers()
    a.beat()
    assert [key.kind for key in harness.timer_keys()] == [REBALANCE, SESSION, SESSION]
    a.beat()
    assert [key.kind for key in harness.timer_keys()] == [SESSION, SESSION]


def test_a_member_that_has_given_up_in_time_stays_however_late_that_is_committed() -> None:
    harness, a, b = two_consumers()
    a.beat()
    for _ in range(5):
        harness.advance(11_000)
        send(harness, heartbeat_request("a", a.epoch))
        b.beat()
    harness.commits_at_once = False
    acknowledged = send(harness, heartbeat_request("a", a.epoch, owned=a.owned))
    harness.advance(11_000)
    harness.commit()
    assert value_of(acknowledged).member_epoch == 3
    assert list(group_of(harness).members) == ["a", "b"]


@pytest.mark.parametrize("restart", [GroupHarness.restart, GroupHarness.crash])
def test_after_a_restart_members_go_on_and_have_all_their_timers(restart: Callable[[GroupHarness], None]) -> None:
    harness, a, b = two_consumers()
    a.beat()
    before = harness.timer_keys()
    restart(harness)
    assert harness.timer_keys() == before
    settle(a, b)
    assert (a.partitions("orders"), b.partitions("orders")) == ([0, 1], [2, 3])
    assert group_of(harness).state_name == "Stable"
    restart(harness)
    harness.advance(60_000)
    assert group_of(harness).state_name == "Empty"


def test_nothing_is_left_to_come_due_when_the_coordinator_moves() -> None:
    harness, a, _ = two_consumers()
    a.beat()
    harness.unload()
    assert not harness.timer_keys()


# ---- topics


def test_new_partitions_are_assigned_with_the_next_heartbeat() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    epoch = group_of(harness).epoch
    harness.image = with_topic(harness.image, "orders", 6)
    settle(a, b)
    assert sorted([*a.partitions("orders"), *b.partitions("orders")]) == list(range(6))
    assert group_of(harness).epoch == epoch + 1


def test_a_deleted_topic_is_taken_away_and_one_of_the_same_name_is_another() -> None:
    harness, a, b = two_consumers(orders=2, bills=2)
    settle(a, b)
    harness.image = without_topic(harness.image, "orders")
    settle(a, b)
    assert {*a.owned, *b.owned} == {BILLS}
    harness.image = with_topic(harness.image, "orders", 2, incarnation=1)
    settle(a, b)
    assert {*a.owned, *b.owned} == {BILLS, topic_id("orders", 1)}


@pytest.mark.parametrize(
    "change",
    [
        lambda image: with_topic(image, "others", 3),  # a topic that nobody reads
        lambda image: image._replace(end_offset=image.end_offset + 1),  # something else altogether
    ],
)
def test_other_changes_of_metadata_do_not_disturb_a_group(change: Callable[..., object]) -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    written = len(harness.log)
    harness.image = change(harness.image)  # type: ignore[assignment]
    settle(a, b)
    assert len(harness.log) == written
    assert group_of(harness).has_seen(harness.image.topics)  # and it is looked at once only


def test_replicas_that_move_to_another_rack_make_a_new_epoch() -> None:
    def broker(rack: str) -> BrokerImage:
        return BrokerImage(1, 1, bytes(16), {}, {}, rack, fenced=False, in_controlled_shutdown=False, log_dirs=())

    harness, a, b = two_consumers()
    settle(a, b)
    epoch = group_of(harness).epoch
    harness.image = with_topic(harness.image._replace(brokers={1: broker("east")}), "unrelated", 1)
    settle(a, b)
    assert group_of(harness).epoch == epoch + 1


def test_partitions_are_taken_away_with_the_subscription() -> None:
    harness = consumer_harness(orders=2, bills=2)
    consumer = Consumer(harness, "m", "orders", "bills")
    consumer.join()
    consumer.names = ["orders"]
    answer = consumer.beat(is_full=True)
    assert answer.member_epoch == 2
    assert (consumer.partitions("orders"), consumer.partitions("bills")) == ([0, 1], [])
    consumer.beat()
    assert (consumer.epoch, group_of(harness).state_name) == (3, "Stable")


# ---- the target


def test_members_that_come_together_are_assigned_together() -> None:
    harness = consumer_harness({"group.consumer.assignment.interval.ms": "1000"}, orders=4)
    a, b = Consumer(harness, "a", "orders"), Consumer(harness, "b", "orders")
    a.join()
    assert a.partitions("orders") == [0, 1, 2, 3]  # the first one need not wait
    b.join()
    settle(a, b)
    assert group_of(harness).state_name == "Assigning"
    assert b.epoch == a.epoch == 2
    harness.advance(1_000)
    settle(a, b)
    assert group_of(harness).state_name == "Stable"
    assert (a.partitions("orders"), b.partitions("orders")) == ([0, 1], [2, 3])


def test_a_group_has_settings_of_its_own() -> None:
    harness, a, _ = two_consumers()
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    resource = ConfigResource(ResourceType.GROUP, GROUP)
    harness.image = harness.image._replace(configs=harness.image.configs.updated({resource: own}))
    assert a.beat().heartbeat_interval_ms == 6_000
    harness.advance(49_000)
    assert list(group_of(harness).members) == ["a"]
    harness.advance(1_000)
    assert not group_of(harness).members


@pytest.mark.parametrize(
    ("wishes", "assignor"),
    [
        ([None], "uniform"),  # the first of group.consumer.assignors
        (["range"], "range"),
        (["range", None, None], "range"),  # who does not care has no vote
        (["range", "uniform"], "uniform"),
        (["range", "uniform", "range"], "range"),
    ],
)
def test_the_assignor_that_most_members_ask_for(wishes: list[str | None], assignor: str) -> None:
    harness = consumer_harness(orders=4)
    for name, wish in enumerate(wishes):
        value_of(send(harness, join_request(f"m{name}", "orders", assignor=wish)))
    assert harness.machine.consumer.describe(group_of(harness)).assignor_name == assignor
    assert harness.report.lines[-1].endswith(f"by {assignor}")


def test_an_assignor_that_is_no_longer_offered_gives_way_to_the_default() -> None:
    harness = consumer_harness(orders=4)
    value_of(send(harness, join_request("a", "orders", assignor="range")))
    harness.alter(group_consumer_assignors="uniform")
    value_of(send(harness, join_request("b", "orders")))
    assert harness.report.lines[-1].endswith("by uniform")


# ---- regular expressions


def test_a_regex_stands_for_the_topics_that_match_it_whole() -> None:
    harness = consumer_harness(orders=1, borders=1, bills=1)
    consumer = Consumer(harness, "m", regex="orders|bi.*")
    consumer.join()
    assert set(consumer.owned) == {ORDERS, BILLS}
    assert group_of(harness).is_subscribed_to("bills")
    assert not group_of(harness).is_subscribed_to("borders")


def test_names_and_a_regex_add_up() -> None:
    harness = consumer_harness(orders=1, bills=1, returns=1)
    consumer = Consumer(harness, "m", "returns", regex="o.*")
    consumer.join()
    assert set(consumer.owned) == {ORDERS, topic_id("returns")}


def test_new_topics_are_found_some_seconds_after_the_last_look() -> None:
    harness = consumer_harness(orders=1)
    consumer = Consumer(harness, "m", regex="o.*")
    consumer.join()
    harness.image = with_topic(harness.image, "others", 1)
    consumer.beat()
    assert set(consumer.owned) == {ORDERS}
    harness.advance(10_001)
    consumer.beat()
    assert set(consumer.owned) == {ORDERS, topic_id("others")}
    written = len(harness.log)
    harness.advance(10_001)
    consumer.beat()
    assert len(harness.log) == written


def test_a_regex_goes_with_its_last_subscriber() -> None:
    harness = consumer_harness(orders=1, bills=1)
    a, b = Consumer(harness, "a", regex="o.*"), Consumer(harness, "b", regex="o.*")
    a.join()
    b.join()
    a.leave()
    assert list(group_of(harness).subscriptions.resolved) == ["o.*"]
    b.regex = "b.*"
    b.beat(is_full=True)
    assert list(group_of(harness).subscriptions.resolved) == ["b.*"]
    b.leave()
    assert not group_of(harness).subscriptions.resolved
    harness.restart()
    assert not group_of(harness).subscriptions.resolved


def test_a_bad_regex_changes_nothing() -> None:
    harness = consumer_harness(orders=1)
    consumer = Consumer(harness, "m", regex="o.*")
    consumer.join()
    written = len(harness.log)
    refused = send(harness, heartbeat_request("m", consumer.epoch, regex="("))
    assert code_of(refused) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(harness.log) == written
    assert group_of(harness).members["m"].subscribed_topic_regex == "o.*"


# ---- what every group answers for


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "topic", "partition", "code"),
    [
        ("a", 3, 9, ORDERS, 0, ErrorCode.NONE),
        ("a", 2, 9, ORDERS, 0, ErrorCode.NONE),  # it has had this one since epoch 2
        ("a", 1, 9, ORDERS, 0, ErrorCode.STALE_MEMBER_EPOCH),  # not since epoch 1
        ("a", 2, 9, ORDERS, 3, ErrorCode.STALE_MEMBER_EPOCH),  # that one is not its own any more
        ("a", 2, 9, BILLS, 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, 9, ORDERS, 0, ErrorCode.STALE_MEMBER_EPOCH),  # an epoch to come
        ("b", 2, 9, ORDERS, 3, ErrorCode.STALE_MEMBER_EPOCH),  # older than its ownership
        ("b", 3, 9, ORDERS, 0, ErrorCode.NONE),  # under the current epoch a member is trusted
        ("a", 3, 8, ORDERS, 0, ErrorCode.UNSUPPORTED_VERSION),  # a generation is no member epoch
        ("x", 3, 9, ORDERS, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ORDERS, 0, ErrorCode.UNKNOWN_MEMBER_ID),  # from outside only while nobody is in
    ],
)
def test_who_may_commit_offsets(
    member_id: str, epoch: int, version: int, topic: bytes, partition: int, code: ErrorCode
) -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    assert (a.epoch, b.epoch) == (3, 3)
    found = ErrorCode.NONE
    try:
        check = group_of(harness).check_offset_commit(member_id, None, epoch, version)
        if check is not None:
            check("topic", topic, partition)
    except KafkaError as error:
        found = error.code
    assert found == code


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),  # an administrator
    ],
)
def test_who_may_fetch_offsets(member_id: str | None, epoch: int, code: ErrorCode) -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    found = ErrorCode.NONE
    try:
        group_of(harness).check_offset_fetch(member_id, epoch)
    except KafkaError as error:
        found = error.code
    assert found == code


def test_anybody_may_commit_to_an_empty_group() -> None:
    harness, a, b = two_consumers()
    a.leave()
    b.leave()
    assert group_of(harness).check_offset_commit("", None, -1, 9) is None


def test_offsets_expire_by_their_commit_once_nobody_reads_the_topic() -> None:
    harness, a, b = two_consumers()
    group = group_of(harness)
    assert group.offsets_expire_since_ms("orders", 7, 99) is None
    assert group.offsets_expire_since_ms("bills", 7, 99) == 7
    a.leave()
    b.leave()
    assert group.offsets_expire_since_ms("orders", 7, 99) == 7


def test_a_group_with_members_is_not_deleted() -> None:
    harness, a, b = two_consumers()
    with pytest.raises(NonEmptyGroup):
        group_of(harness).check_delete()
    a.leave()
    b.leave()
    group_of(harness).check_delete()
    group_of(harness).check_offset_delete()


def test_tombstones_remove_every_trace() -> None:
    harness = consumer_harness(orders=1)
    consumer = Consumer(harness, "m", regex="o.*")
    consumer.join()
    harness.ask(lambda _: Decision(group_of(harness).tombstones(), None))
    assert GROUP not in harness.context.groups
    harness.restart()
    assert GROUP not in harness.context.groups
    latest: dict[bytes, bytes | None] = dict(harness.log)
    assert set(latest.values()) == {None}


def test_tombstones_of_what_is_not_there_are_ignored() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    harness.partition.rewrite([(key, None) for key, _ in harness.log])
    harness.restart()
    assert not harness.context.groups


def test_the_description_of_a_group() -> None:
    harness, a, _ = two_consumers()
    a.beat()
    described = harness.machine.consumer.describe(group_of(harness))
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    members = {member.member_id: member for member in described.members}
    partitions = {
        member_id: (
            [topic.partitions for topic in member.assignment.topic_partitions],
            [topic.partitions for topic in member.target_assignment.topic_partitions],
        )
        for member_id, member in members.items()
    }
    assert partitions == {"a": ([[0, 1, 2, 3]], [[0, 1]]), "b": ([], [[2, 3]])}  # what a gives up is still its own
    first = members["a"]
    assert (first.client_id, first.client_host, first.member_type) == ("client-1", "/127.0.0.1", 1)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["orders"], "")
    assert members["a"].assignment.topic_partitions[0].topic_name == "orders"


# ---- the log


def test_what_cannot_be_written_has_not_happened() -> None:
    harness, a, _ = two_consumers()
    before = dict(group_of(harness).members)
    harness.append_error = KafkaStorageError("disk full")
    assert code_of(send(harness, join_request("c", "orders"))) == ErrorCode.NOT_COORDINATOR
    assert code_of(send(harness, heartbeat_request("a", a.epoch, owned=a.owned))) == ErrorCode.NOT_COORDINATOR
    assert code_of(send(harness, heartbeat_request("a", -1))) == ErrorCode.NOT_COORDINATOR
    assert group_of(harness).members == before
    assert {key.member_id for key in harness.timer_keys()} == {"a", "b"}
    harness.append_error = None
    a.beat()
    assert a.partitions("orders") == [0, 1]


def test_a_change_of_topics_that_could_not_be_written_is_seen_again() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    harness.image = with_topic(harness.image, "orders", 5)
    harness.append_error = KafkaStorageError("disk full")
    assert code_of(send(harness, heartbeat_request("a", a.epoch))) == ErrorCode.NOT_COORDINATOR
    harness.append_error = None
    settle(a, b)
    assert len([*a.partitions("orders"), *b.partitions("orders")]) == 5


def test_a_session_that_ends_while_the_disk_is_full_ends_later() -> None:
    harness, _, _ = two_consumers()
    harness.append_error = KafkaStorageError("disk full")
    harness.advance(50_000)
    assert len(group_of(harness).members) == 2
    harness.append_error = None
    harness.advance(1_000)
    assert not group_of(harness).members
    assert not harness.timer_keys()


def test_a_member_that_comes_back_before_its_removal_is_committed_keeps_its_session() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    harness.commits_at_once = False
    left = send(harness, heartbeat_request("a", -1))
    joined = send(harness, join_request("a", "orders"))
    harness.commit()
    assert (code_of(left), code_of(joined)) == (ErrorCode.NONE, ErrorCode.NONE)
    assert [key.member_id for key in harness.timer_keys()] == ["a", "b"]


def test_a_partition_stays_with_its_new_owner_whatever_compaction_leaves_of_the_old_one() -> None:
    harness, a, b = two_consumers()
    settle(a, b)

    def holds(member_id: str, epoch: int, *numbers: int) -> tuple[bytes, bytes]:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch - 1,
            state=0,
            assigned_partitions=[TopicPartitions(topic_id=ORDERS, partitions=numbers)],
            partitions_pending_revocation=[],
        )
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id)
        return encode_key(key), encode_value(value)

    # What was between them, where a gives 0 up, is gone.
    harness.partition.write(holds("b", 4, 0, 2, 3), holds("a", 5, 1))
    harness.restart()
    assert group_of(harness).is_taken(ORDERS, 0)


def test_offsets_that_were_committed_before_the_group_do_not_stand_in_its_way() -> None:
    """They make a group of simple consumers, of which there is no record."""
    harness, a, b = two_consumers()
    settle(a, b)
    before = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    key = encode_key(OffsetCommitKey(group=GROUP, topic="orders", partition=0))
    harness.partition.rewrite([(key, encode_value(before)), *harness.log])
    harness.restart()
    assert list(group_of(harness).members) == ["a", "b"]


def test_records_of_older_brokers_are_understood() -> None:
    """Before Kafka 4.1 there was a record of the partitions; before 4.3 none of the epochs beside them."""
    harness, a, b = two_consumers()
    settle(a, b)
    old = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=0,
        assigned_partitions=[TopicPartitions(topic_id=ORDERS, partitions=[0, 1])],
        partitions_pending_revocation=[],
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    harness.partition.write((encode_key(key), encode_value(old)))
    partitions = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    harness.partition.write((encode_key(partitions), encode_value(ConsumerGroupPartitionMetadataValue(topics=[]))))
    harness.restart()
    assert group_of(harness).members["a"].assigned_partitions == {ORDERS: {0: 3, 1: 3}}
    written = len(harness.log)
    a.beat()  # the record is of no use any more
    assert [value for key, value in harness.records(written)] == [None]
    settle(a, b)
    assert len(harness.log) == written + 1


def test_a_state_of_a_later_version_makes_the_member_start_over() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    later = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3, previous_member_epoch=2, state=55, assigned_partitions=[], partitions_pending_revocation=[]
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    harness.partition.write((encode_key(key), encode_value(later)))
    harness.restart()
    assert code_of(send(harness, heartbeat_request("a", 3, owned=a.owned))) == ErrorCode.FENCED_MEMBER_EPOCH
    a.join()
    settle(a, b)
    assert (a.partitions("orders"), b.partitions("orders")) == ([0, 1], [2, 3])


def test_people_are_told_who_came_and_went_and_what_came_of_it() -> None:
    harness, a, b = two_consumers()
    settle(a, b)
    a.leave()
    settle(b)
    harness.advance(60_000)
    told = [line.removeprefix(f"info consumer group {GROUP}: ") for line in harness.report.lines]
    assert told == [
        "a joined with the consumer protocol; group epoch 1 -> 2; 4 partitions assigned to 1 member by uniform",
        "b joined with the consumer protocol; group epoch 2 -> 3; 4 partitions assigned to 2 members by uniform",
        "a removed: it left; group epoch 3 -> 4, 1 member left",
        "4 partitions assigned to 1 member by uniform",
        "b removed: it was silent for 45000 ms; group epoch 4 -> 5, 0 members left",
    ]


def test_a_consumer_group_is_what_it_says_it_is() -> None:
    group = ConsumerGroup("g")
    assert (group.type, group.protocol_type, group.state_name) == ("consumer", "consumer", "Empty")
