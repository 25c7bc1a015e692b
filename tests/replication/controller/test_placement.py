from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.replication.controller.placement import UsableBroker, place


class NoRandom:
    """Every list starts at its beginning and is shuffled into a fixed order."""

    def getrandbits(self, k: int, /) -> int:
        return 0

    def randrange(self, stop: int, /) -> int:
        return 0

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


RACKS = [UsableBroker(10 * rack + number, f"rack{rack}") for rack in (0, 1, 2) for number in (0, 1, 2)]


def test_partitions_stripe_over_racks_and_over_the_brokers_of_each() -> None:
    assert place(3, 3, RACKS, NoRandom()) == [(0, 10, 20), (11, 21, 1), (22, 2, 12)]


@pytest.mark.parametrize(
    ("brokers", "replication_factor", "reason"),
    [
        ([UsableBroker(1)], 2, "only 1 broker"),
        ([UsableBroker(1)], 0, "positive"),
        ([UsableBroker(1, fenced=True)], 1, "fenced"),
        ([], 1, "fenced"),
    ],
)
def test_what_cannot_be_placed_is_an_invalid_replication_factor(
    brokers: list[UsableBroker], replication_factor: int, reason: str
) -> None:
    with pytest.raises(KafkaError, match=reason) as raised:
        place(1, replication_factor, brokers, NoRandom())
    assert raised.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    racks=st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=4),
    partitions=st.integers(1, 30),
    data=st.data(),
    seed=st.integers(0, 2**32),
)
def test_any_placement_is_sound(racks: list[list[bool]], partitions: int, data: st.DataObject, seed: int) -> None:
    brokers = [
        UsableBroker(10 * rack + number, str(rack), fenced)
        for rack, members in enumerate(racks)
        for number, fenced in enumerate(members)
    ]
    unfenced = {broker.broker_id for broker in brokers if not broker.fenced}
    factor = data.draw(st.integers(1, len(brokers)))
    if not unfenced:
        return
    placed = place(partitions, factor, brokers, Random(seed))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor  # nobody twice
        assert replicas[0] in unfenced  # the leader can lead
        assert len({replica // 10 for replica in replicas}) == min(factor, len(racks))  # as many racks as possible


def test_leaders_and_replicas_are_even_over_many_topics_and_every_partition_is_in_every_rack() -> None:
    random = Random(5)
    leaders: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    for _ in range(900):  # topics of a single partition: only the random start of each can spread them
        (replicas,) = place(1, 3, RACKS, random)
        leaders[replicas[0]] += 1
        holders.update(replicas)
        assert {replica // 10 for replica in replicas} == {0, 1, 2}
    assert leaders.keys() == holders.keys() == {broker.broker_id for broker in RACKS}
    assert max(leaders.values()) < 130  # 100 on average; 3 standard deviations are 28
    assert min(leaders.values()) > 70
    assert max(holders.values()) < 350  # 300 on average


def test_leaders_are_even_over_racks_and_nearly_so_over_the_brokers_of_each() -> None:
    placed = place(900, 3, RACKS, Random(5))
    assert set(Counter(replicas[0] // 10 for replicas in placed).values()) == {300}
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) < 130  # in each round the order of the brokers decides, which is random
    assert min(leaders.values()) > 70


def test_leaders_are_even_after_any_number_of_rounds() -> None:
    brokers = [UsableBroker(number) for number in range(5)]
    leaders = Counter(replicas[0] for replicas in place(1000, 3, brokers, Random(3)))
    assert set(leaders.values()) == {200}
