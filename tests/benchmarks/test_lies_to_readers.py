"""Readers that follow, commit or share a group notice lies, too, and no broker can make one wait for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.bench import Bench
from benchmarks.systems import Failed
from tests.lying import lies
from tests.lying.proxy import Lie

REQUESTS = 10
SHORT: dict[str, Any] = {"silence_ms": 300, "coordinator_ms": 300}
TAIL: dict[str, Any] = {"tail": 1, "milliseconds": 10_000}


def read(bench: Bench, partitions: int = 1, **options: Any) -> None:
    topic = bench.topic(partitions)
    produced = bench.load("produce", topic=topic, partitions=partitions, requests=REQUESTS)
    expected = {"expect": int(produced["records"]), "streams": int(produced["streams"])}
    if "group" in options:
        options["group"] += topic
    bench.load("read", topic=topic, partitions=partitions, **expected, **options)


@pytest.mark.parametrize("options", [{}, TAIL, {"group": "of-"}, {"group": "of-", "readers": 3}, {"partitions": 3}])
def test_an_honest_broker_passes(options: dict[str, Any], bench_behind: Callable[[Lie], Bench]) -> None:
    read(bench_behind(lies.none), **options)


LIES: dict[str, tuple[Lie, dict[str, Any], str]] = {
    "drops a batch from one who follows": (lies.fetching(lies.without_the_second), TAIL, "something is missing"),
    "sends nothing to one who follows": (
        lies.fetching(lies.nothing),
        {"tail": 1, "milliseconds": 300},
        "0 records came back of 10",
    ),
    "stops sending to one who follows": (
        lies.the_first_and_then_nothing,
        {**TAIL, **SHORT},
        "no record for 300 ms: 1 came back of 10",
    ),
    "sends nothing": (lies.fetching(lies.nothing), SHORT, "no record for 300 ms: 0 came back of 10"),
    "stops sending": (lies.the_first_and_then_nothing, SHORT, "no record for 300 ms: 1 came back of 10"),
    "forgets commits": (lies.forgets_commits, {"group": "of-"}, "committed 0, which is not what was committed"),
    "commits no partition": (lies.commits_nothing, {"group": "of-"}, "0 of 1 partitions"),
    "remembers no partition": (lies.remembers_nothing, {"group": "of-"}, "0 of 1 partitions"),
    "answers twice about one partition": (
        lies.answers_twice_about_one_partition,
        {"group": "of-", "partitions": 2},
        "twice",
    ),
    "never coordinates": (lies.never_coordinates, {"group": "of-", **SHORT}, "no coordinator for of-.*error 16"),
}


@pytest.mark.parametrize(("lie", "options", "reason"), LIES.values(), ids=LIES.keys())
def test_a_lie_fails_the_sample(
    lie: Lie, options: dict[str, Any], reason: str, bench_behind: Callable[[Lie], Bench]
) -> None:
    bench = bench_behind(lie)
    with pytest.raises(Failed, match=reason):
        read(bench, **options)


def test_a_reader_that_would_never_end_does_not_begin(bench_behind: Callable[[Lie], Bench]) -> None:
    with pytest.raises(Failed, match="would never end"):
        bench_behind(lies.none).load("read", topic="any", streams=1)


def group(bench: Bench) -> None:
    topic = bench.topic(4)
    bench.load("groups", group=f"of-{topic}", topic=topic, partitions=4, members=2, rounds=1)


def test_an_honest_broker_lets_a_group_agree(bench_behind: Callable[[Lie], Bench]) -> None:
    group(bench_behind(lies.none))


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lies.assigns_the_same_to_all(), "was given to two members"),
        (lies.assigns_nothing, "owns 0 of 4 partitions"),
    ],
)
def test_a_group_that_shares_wrongly_fails_the_sample(
    lie: Lie, reason: str, bench_behind: Callable[[Lie], Bench]
) -> None:
    bench = bench_behind(lie)
    with pytest.raises(Failed, match=reason):
        group(bench)
