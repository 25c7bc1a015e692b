"""A broker that loses, repeats, reorders or alters records makes a sample fail, however fast it is."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.results import Run
from benchmarks.runner import Plan, take_session
from benchmarks.scenario import Case, Figures, Scenario, more
from benchmarks.systems import Barnabas, Failed
from tests.benchmarks.conftest import liar
from tests.lying import lies
from tests.lying.proxy import PRODUCE, Exchange, Lie

REQUESTS = 10

LIES = {
    "acknowledges the last batch without storing it": (
        lies.acknowledges_without_storing(REQUESTS),
        "9 records came back of 10 that were acknowledged",
    ),
    "acknowledges a batch without storing it": (lies.acknowledges_without_storing(4), "was acknowledged after"),
    "stores a batch twice": (lies.stores_twice, "repeated or late"),
    "answers another request": (lies.answers_another_request, "was acknowledged after"),
    "drops a batch when read": (lies.fetching(lies.without_the_second), "something is missing"),
    "repeats a batch when read": (lies.fetching(lies.the_second_again), "repeated"),
    "exchanges two batches": (lies.fetching(lies.exchanged), "record 2 of stream 0 where 1 belongs"),
    "alters a byte": (lies.fetching(lies.altered), "a wrong CRC"),
    "alters a byte and its CRC": (lies.fetching(lies.altered_with_a_right_crc), "content was altered"),
}


def by_hand(bench: Bench) -> None:
    topic = bench.topic(1)
    produced = bench.load("produce", topic=topic, requests=REQUESTS)
    bench.read_back(topic, 1, produced)


def through_librdkafka(bench: Bench) -> None:
    topic = bench.topic(1)
    bench.load("produce-bulk", topic=topic, records=8, record_bytes=100, batch_records=1)
    bench.load("consume-bulk", topic=topic, records=8)


@pytest.mark.parametrize("use", [by_hand, through_librdkafka])
def test_an_honest_broker_passes(use: Callable[[Bench], None], bench_behind: Callable[[Lie], Bench]) -> None:
    use(bench_behind(lies.none))


@pytest.mark.parametrize(("lie", "reason"), LIES.values(), ids=LIES.keys())
def test_a_lie_fails_the_sample(lie: Lie, reason: str, bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lie)
    with pytest.raises(Failed, match=reason):
        by_hand(bench)


LIES_TO_LIBRDKAFKA = {
    "acknowledges a batch without storing it": (lies.acknowledges_without_storing(4), "acknowledged as offset 3"),
    "acknowledges the last batch without storing it": (lies.acknowledges_without_storing(8), "7 records .* of 8"),
    "stores a batch twice": (lies.stores_twice, "acknowledged as offset 4 what must be 3"),
    "drops a batch when read": (lies.fetching(lies.without_the_second), "something is missing"),
    "exchanges two batches": (lies.fetching(lies.exchanged), "where 1 belongs"),
    "alters a byte and its CRC": (lies.fetching(lies.altered_with_a_right_crc), "content was altered"),
}


@pytest.mark.parametrize(("lie", "reason"), LIES_TO_LIBRDKAFKA.values(), ids=LIES_TO_LIBRDKAFKA.keys())
def test_a_lie_to_librdkafka_fails_the_sample(lie: Lie, reason: str, bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lie)
    with pytest.raises(Failed, match=reason):
        through_librdkafka(bench)


def test_a_codec_that_was_not_used_is_noticed(bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lies.none)
    topic = bench.topic(1)
    produced = bench.load("produce", topic=topic, requests=REQUESTS, record_bytes=1000)
    with pytest.raises(Failed, match="did not compress"):
        bench.check_compressed(topic, produced["bytes"])


def test_a_stall_is_charged_to_every_request_that_was_due_meanwhile(bench_behind: Callable[[Lie], Bench]) -> None:
    """Whoever waits for the reply before sending the next request would see one slow one among five hundred."""

    def stalls_once(exchange: Exchange) -> bytes:
        if exchange.api_key == PRODUCE and exchange.number == 100:
            time.sleep(0.3)  # the broker's stall, not a wait for it
        return exchange.forward(exchange.request)

    bench = bench_behind(stalls_once)
    produced = bench.load("produce", topic=bench.topic(1), rate=1000, milliseconds=500)
    assert produced["requests"] == 500
    assert produced["latency_ms_max"] >= 300
    assert produced["latency_ms_p50"] >= 50


def produce_and_read(bench: Bench, case: Case) -> Figures:
    by_hand(bench)
    return {"speed": 1_000_000.0}


SCENARIO = Scenario(
    name="tiny",
    title="Tiny",
    method="",
    metrics=(more("speed"),),
    cases=(Case("first"), Case("second")),
    measure=produce_and_read,
    warm_up=False,
)


def test_a_failed_case_has_no_figure_and_the_next_one_gets_another_broker(program: Path, tmp_path: Path) -> None:
    """The lie is told once in the life of a proxy, so both cases meet it, each on a broker of its own."""
    run = Run(started="", quick=False, samples=1, scale=1, machine={}, systems={"liar": {}, "barnabas": {}})
    plan = Plan([SCENARIO], [], 1, 1, False, tmp_path, program)
    for system in (liar(lies.stores_twice), Barnabas):
        (work,) = plan.sessions(0)
        take_session(plan, run, work, system, lambda text: None)
    for name in ("first", "second"):
        case = run.case("tiny", name)
        assert case is not None
        assert case.figure("speed", "liar") is None
        assert case.figure("speed", "barnabas") is not None
    assert len(run.failures()) == 2
    assert list(tmp_path.iterdir()) == []
