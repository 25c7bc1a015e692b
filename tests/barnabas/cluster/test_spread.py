"""Where a plan puts replicas: evenly, over the racks, and with the fewest moves."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from barnabas.client.replicas.spread import Plan, drained, spread_evenly
from barnabas.options import Failure
from barnabas.protocol.types import TopicPartition

Assignments = dict[TopicPartition, tuple[int, ...]]
NO_RACKS = dict.fromkeys((1, 2, 3, 4), None)
RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def topic(*replicas: tuple[int, ...], name: str = "orders") -> Assignments:
    return {TopicPartition(name, index): each for index, each in enumerate(replicas)}


def after(before: Assignments, plan: Plan) -> Assignments:
    return {**before, **plan}


def copies(before: Assignments, plan: Plan) -> int:
    return sum(len({*replicas} - {*before[name]}) for name, replicas in plan.items())


def difference(counts: Mapping[int, int], brokers: Sequence[int]) -> int:
    found = [counts.get(broker_id, 0) for broker_id in brokers]
    return max(found) - min(found)


@pytest.mark.parametrize(
    ("before", "fewest"),
    [
        (topic(*[(1, 2, 3)] * 8), 6),  # a broker is new: 24 replicas, six for each
        (topic(*[(1, 2), (2, 1)] * 4), 8),  # two are new
        (topic(*[(1,)] * 7), 5),  # 2, 2, 2 and 1
        (topic((1, 2), (2, 3), (3, 4), (4, 1)), 0),
        (topic(*[(1, 2, 3)] * 4) | topic(*[(1, 2, 3)] * 4, name="payments"), 6),
    ],
)
def test_replicas_and_leaders_are_spread_with_the_fewest_copies(before: Assignments, fewest: int) -> None:
    plan = spread_evenly(before, NO_RACKS)
    found = after(before, plan)
    assert copies(before, plan) == fewest
    assert difference(Counter(each for replicas in found.values() for each in replicas), [1, 2, 3, 4]) <= 1
    assert difference(Counter(replicas[0] for replicas in found.values()), [1, 2, 3, 4]) <= 1
    for name, replicas in found.items():
        assert len(set(replicas)) == len(replicas) == len(before[name])


def test_topics_are_spread_each_by_itself_as_well() -> None:
    before = topic(*[(1, 2, 3)] * 4) | topic(*[(1, 2, 3)] * 4, name="payments")
    found = after(before, spread_evenly(before, NO_RACKS))
    for name in ("orders", "payments"):
        on = Counter(each for partition, replicas in found.items() if partition.topic == name for each in replicas)
        assert on == {1: 3, 2: 3, 3: 3, 4: 3}


def test_leaders_are_given_on_over_a_third_broker_where_two_share_nothing() -> None:
    skewed = topic((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 1))
    found = after(skewed, spread_evenly(skewed, dict.fromkeys((1, 2, 3), None)))
    assert Counter(replicas[0] for replicas in found.values()) == {1: 2, 2: 2, 3: 2}


def test_replicas_of_a_partition_are_in_different_racks_and_stay_there() -> None:
    before = topic(*[(1, 2)] * 4, *[(3, 4)] * 4)
    found = after(before, spread_evenly(before, RACKS))
    assert all({RACKS[each] for each in replicas} == {"a", "b"} for replicas in found.values())
    assert difference(Counter(each for replicas in found.values() for each in replicas), [1, 2, 3, 4]) <= 1


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_a_replication_factor_adds_replicas_or_takes_some_away(factor: int) -> None:
    before = topic((1, 2, 3), (2, 3, 1))
    found = after(before, spread_evenly(before, NO_RACKS, factor))
    assert {len(set(replicas)) for replicas in found.values()} == {factor}


def test_brokers_that_may_have_none_lose_theirs() -> None:
    before = topic((1, 2), (2, 3), (3, 4))
    found = after(before, spread_evenly(before, {1: None, 2: None, 3: None}))
    assert all(4 not in replicas for replicas in found.values())


def test_a_drain_moves_what_is_on_the_broker_and_nothing_else() -> None:
    before = topic((1, 2), (2, 3), (3, 4), (9, 3))
    others = {each: rack for each, rack in RACKS.items() if each != 3}
    plan = drained(before, others, 3)
    assert plan.keys() == {TopicPartition("orders", index) for index in (1, 2, 3)}
    assert plan[TopicPartition("orders", 1)] == (2, 4)  # the other rack
    assert plan[TopicPartition("orders", 3)][0] == 9  # a broker that is down keeps what it has


def test_a_drain_without_enough_brokers_says_so() -> None:
    with pytest.raises(Failure, match="orders-0 needs 3 replicas, and only 2 brokers may have one"):
        drained(topic((1, 2, 3)), {1: None, 2: None}, 3)
