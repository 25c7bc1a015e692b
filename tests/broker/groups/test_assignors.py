"""The assignors: everything is assigned, once, to who asked for it; evenly; and moving as little as that needs."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.groups.assignors import ASSIGNORS, GroupAssignment
from tests.broker.groups.group_specs import Subscriptions, flat, moved, of_pairs, sizes, topic_id
from tests.kafka_jars import run_java

COUNTS = st.dictionaries(st.integers(0, 7), st.integers(0, 12), min_size=1, max_size=6)
MEMBERS = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=9, unique=True)

unhurried = settings(deadline=None)


@st.composite
def alike(draw: st.DrawFn) -> Subscriptions:
    counts = draw(COUNTS)
    return Subscriptions(counts, dict.fromkeys(draw(MEMBERS), frozenset(counts)))


@st.composite
def mixed(draw: st.DrawFn) -> Subscriptions:
    counts = draw(COUNTS)
    some = st.frozensets(st.sampled_from(sorted(counts)))
    members = draw(MEMBERS)
    instances = {member: f"i-{member[::-1]}" for member in draw(st.frozensets(st.sampled_from(members)))}
    return Subscriptions(counts, {member: draw(some) for member in members}, instances)


def assert_whole(group: Subscriptions, assignment: GroupAssignment) -> None:
    """Every partition that somebody subscribed to is assigned once, to a subscriber. Everybody has an answer."""
    pairs = [pair for partitions in assignment.values() for pair in flat(partitions)]
    subscribed = frozenset[int]().union(*group.topics.values())
    assert sorted(pairs) == [(topic, n) for topic in sorted(subscribed) for n in range(group.counts.get(topic, 0))]
    assert assignment.keys() == group.topics.keys()
    for member_id, partitions in assignment.items():
        assert {topic for topic, _ in flat(partitions)} <= group.topics[member_id]
        assert all(partitions.values()), "no topic without partitions"


# What holds for both


@pytest.mark.parametrize("assignor", ASSIGNORS)
@unhurried
@given(group=st.one_of(alike(), mixed()))
def test_every_partition_is_assigned_once_to_a_subscriber(assignor: str, group: Subscriptions) -> None:
    assert_whole(group, group.assign(assignor))


@pytest.mark.parametrize("assignor", ASSIGNORS)
@unhurried
@given(group=st.one_of(alike(), mixed()))
def test_nothing_moves_while_nothing_changes(assignor: str, group: Subscriptions) -> None:
    assignment = group.assign(assignor)
    assert group.assign(assignor, assignment) == assignment


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_group_without_members_or_topics_has_nothing(assignor: str) -> None:
    assert Subscriptions({1: 3}, {}).assign(assignor) == {}
    assert Subscriptions({1: 3}, {"a": frozenset()}).assign(assignor) == {"a": {}}
    assert Subscriptions({1: 3}, {"a": frozenset(), "b": frozenset([1])}).assign(assignor)["a"] == {}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("other", [frozenset([1, 2]), frozenset([1])])
def test_a_topic_that_is_gone_is_left_out(assignor: str, other: frozenset[int]) -> None:
    group = Subscriptions({1: 2}, {"a": frozenset([1, 2]), "b": other})
    before: GroupAssignment = {"a": of_pairs({(1, 0), (2, 0)}), "b": of_pairs({(1, 1)})}
    assert group.assign(assignor, before) == {"a": of_pairs({(1, 0)}), "b": of_pairs({(1, 1)})}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("other", [frozenset([1]), frozenset([1, 2])])
def test_partitions_that_a_topic_has_not_are_left_out(assignor: str, other: frozenset[int]) -> None:
    group = Subscriptions({1: 2, 2: 0}, {"a": frozenset([1]), "b": other})
    before: GroupAssignment = {"a": of_pairs({(1, 7), (1, 0)}), "b": of_pairs({(1, 8)})}
    assert group.assign(assignor, before) == {"a": of_pairs({(1, 0)}), "b": of_pairs({(1, 1)})}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@unhurried
@given(group=mixed(), changed=mixed())
def test_whatever_was_there_before_the_result_is_whole(
    assignor: str, group: Subscriptions, changed: Subscriptions
) -> None:
    before = group.assign(assignor)
    assert_whole(changed, changed.assign(assignor, before))


# Uniform


@unhurried
@given(group=alike(), current=mixed())
def test_uniform_differs_by_one_partition_at_most(group: Subscriptions, current: Subscriptions) -> None:
    result = sizes(group.assign("uniform", current.assign("uniform")))
    assert result[-1] - result[0] <= 1


@unhurried
@given(group=alike(), data=st.data())
def test_uniform_moves_only_what_a_leaving_member_had(group: Subscriptions, data: st.DataObject) -> None:
    before = group.assign("uniform")
    leaving = data.draw(st.sampled_from(sorted(group.topics)))
    rest = group.without(leaving)
    after = rest.assign("uniform", before)
    assert moved(before, after) == (len(flat(before[leaving])) if rest.topics else 0)


@unhurried
@given(group=alike())
def test_uniform_gives_a_joining_member_its_share_and_moves_nothing_else(group: Subscriptions) -> None:
    before = group.assign("uniform")
    grown = group.joined_by("new", frozenset(group.counts))
    after = grown.assign("uniform", before)
    total = sum(group.counts.values())
    assert moved(before, after) == len(flat(after["new"])) == total // len(grown.topics)


@unhurried
@given(group=alike(), more=st.integers(1, 20))
def test_uniform_moves_nothing_for_partitions_that_are_added(group: Subscriptions, more: int) -> None:
    before = group.assign("uniform")
    topic = min(group.counts)
    grown = Subscriptions({**group.counts, topic: group.counts[topic] + more}, group.topics)
    assert moved(before, grown.assign("uniform", before)) == more


@unhurried
@given(group=mixed())
def test_uniform_evens_out_the_subscribers_of_each_topic(group: Subscriptions) -> None:
    assignment = group.assign("uniform")
    size = {member_id: len(flat(partitions)) for member_id, partitions in assignment.items()}
    for topic in group.counts:
        subscribers = [member_id for member_id, topics in group.topics.items() if topic in topics]
        givers = [size[member_id] for member_id in subscribers if topic_id(topic) in assignment[member_id]]
        if givers:
            assert max(givers) - min(size[member_id] for member_id in subscribers) <= 1


def test_uniform_gives_who_changes_nothing_the_very_object_it_had() -> None:
    group = Subscriptions({1: 6}, dict.fromkeys("abc", frozenset([1])))
    before = group.assign("uniform")
    after = group.assign("uniform", before)
    assert all(after[member_id] is before[member_id] for member_id in "abc")


def test_uniform_lets_a_member_keep_what_it_is_still_subscribed_to() -> None:
    group = Subscriptions({1: 4, 2: 4}, dict.fromkeys("ab", frozenset([1, 2])))
    before = group.assign("uniform")
    narrowed = Subscriptions(group.counts, {"a": frozenset([1]), "b": frozenset([1, 2])})
    after = narrowed.assign("uniform", before)
    assert sizes(after) == [4, 4]
    assert {pair for pair in flat(before["a"]) if pair[0] == 1} <= flat(after["a"])


def test_uniform_moves_a_hundredth_when_one_of_a_hundred_leaves() -> None:
    group = Subscriptions({1: 5000, 2: 5000}, {f"member-{n}": frozenset([1, 2]) for n in range(100)})
    before = group.assign("uniform")
    assert moved(before, group.without("member-7").assign("uniform", before)) == 100


# Range


def test_range_gives_neighbours_and_the_first_members_what_is_left_over() -> None:
    group = Subscriptions({1: 7}, dict.fromkeys(["c", "a", "b"], frozenset([1])))
    assert {member: sorted(n for _, n in flat(owned)) for member, owned in group.assign("range").items()} == {
        "a": [0, 1, 2],
        "b": [3, 4],
        "c": [5, 6],
    }


def test_range_assigns_topics_of_one_size_alike() -> None:
    group = Subscriptions({1: 5, 2: 5}, dict.fromkeys("ab", frozenset([1, 2])))
    assert all(owned[topic_id(1)] == owned[topic_id(2)] for owned in group.assign("range").values())


def test_range_orders_static_members_first_by_their_instance_id() -> None:
    group = Subscriptions({1: 3}, dict.fromkeys(["a", "y", "z"], frozenset([1])), {"y": "i-2", "z": "i-1"})
    assert group.assign("range") == {"z": of_pairs({(1, 0)}), "y": of_pairs({(1, 1)}), "a": of_pairs({(1, 2)})}


# The same groups in Kafka's own classes


def generated(rng: random.Random) -> tuple[Subscriptions, Subscriptions]:
    """A group, and the same group after a few changes."""
    counts = {topic: rng.randint(1, 30) for topic in range(rng.randint(1, 8))}
    names = rng.sample([f"member-{n}" for n in range(40)], rng.randint(1, 15))
    instances = {name: f"instance-{rng.randint(0, 1000)}-{name}" for name in names if rng.random() < 0.3}
    is_alike = rng.random() < 0.5

    def topics() -> frozenset[int]:
        return frozenset(counts) if is_alike else frozenset(rng.sample(sorted(counts), rng.randint(1, len(counts))))

    before = Subscriptions(counts, {name: topics() for name in names}, instances)
    after = before
    for name in rng.sample(names, rng.randint(0, len(names) - 1)) if rng.random() < 0.7 else []:
        after = after.without(name)
    for number in range(rng.randint(0, 4)):
        after = after.joined_by(f"new-{number}", topics())
    grown = {topic: count + rng.choice([0, 0, 3]) for topic, count in counts.items()}
    return before, Subscriptions(grown, after.topics, instances)


def line_of(assignor: str, group: Subscriptions, current: GroupAssignment) -> str:
    members = [
        "|".join(
            [
                member_id,
                group.instances.get(member_id, "-"),
                ",".join(map(str, sorted(topics))) or "-",
                ",".join(f"{topic}:{n}" for topic, n in sorted(flat(current.get(member_id, {})))) or "-",
            ]
        )
        for member_id, topics in group.topics.items()
    ]
    counts = ",".join(f"{topic}={count}" for topic, count in group.counts.items())
    return " ".join([assignor, "homogeneous" if group.is_homogeneous else "heterogeneous", counts, *members])


def assignment_of(line: str) -> GroupAssignment:
    assignment: GroupAssignment = {}
    for word in line.split(" "):
        member_id, _, text = word.partition("=")
        pairs = (pair.split(":") for pair in text.split(",") if pair)
        assignment[member_id] = of_pairs({(int(topic), int(n)) for topic, n in pairs})
    return assignment


def test_kafka_assigns_the_same() -> None:
    """Range to the letter; uniform as evenly, with as many moves. Which of two equal members gets more may differ."""
    cases = [(assignor, *generated(random.Random(seed))) for assignor in ASSIGNORS for seed in range(400)]
    befores = [before.assign(assignor) for assignor, before, _ in cases]
    lines = [line_of(assignor, after, current) for (assignor, _, after), current in zip(cases, befores)]
    answers = run_java("AssignorProbe.java", "\n".join(lines) + "\n").splitlines()
    for (assignor, _, group), current, line, answer in zip(cases, befores, lines, answers, strict=True):
        kafkas, ours = assignment_of(answer), group.assign(assignor, current)
        if assignor == "range":
            assert ours == kafkas, line
        else:
            assert (sizes(ours), moved(current, ours)) == (sizes(kafkas), moved(current, kafkas)), line
