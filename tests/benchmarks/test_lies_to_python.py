"""The three Python clients, one record at a time: what is refused, not stored or altered has no latency."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import python_load
from benchmarks.bench import Bench
from benchmarks.generator import Outcome
from benchmarks.scenario import Case
from benchmarks.scenarios import python_clients
from benchmarks.systems import Barnabas, Failed
from tests.lying import lies
from tests.lying.proxy import Lie

RECORDS = 10
CLIENTS = list(python_load.CLIENTS)


def one_at_a_time(bench: Bench, client: str, **options: Any) -> None:
    topic = {"topic": bench.topic(1), "records": RECORDS}
    bench.python_load(client, "wait", **topic, **options)
    bench.python_load(client, "consume", **topic, **options)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_honest_broker_passes(client: str, bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lies.none)
    one_at_a_time(bench, client)
    many = {"topic": bench.topic(1), "records": RECORDS}
    bench.python_load(client, "produce", **many)
    bench.python_load(client, "consume", **many)


LIES: dict[str, tuple[Lie, str]] = {
    "acknowledges the last record without storing it": (
        lies.acknowledges_without_storing(RECORDS),
        "9 records came back of 10 that were acknowledged",
    ),
    "refuses a record": (lies.refuses, "(?i)topic.?authorization.?failed"),
    "alters a byte and its CRC": (lies.alters(python_load.value(3)), "offset 3 does not hold what was written there"),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("lie", "reason"), LIES.values(), ids=LIES.keys())
def test_a_lie_fails_the_sample(lie: Lie, reason: str, client: str, bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lie)
    with pytest.raises(Failed, match=reason):
        one_at_a_time(bench, client, silence_s=3)


def test_an_acknowledgement_that_does_not_come_is_not_waited_for(bench_behind: Callable[[Lie], Bench]) -> None:
    bench = bench_behind(lies.stalls)
    with pytest.raises(Failed, match=r"1 records were not acknowledged within 0\.5 s"):
        one_at_a_time(bench, "confluent-kafka", silence_s=0.5)


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ([0, 1], "2 of 3 records were acknowledged"),
        ([0, 2, 1], "acknowledged as offset 2 what must be 1"),
        ([0, 1, 1], "acknowledged as offset 1 what must be 2"),
        ([0, "refused", 2], "acknowledged as offset refused what must be 1"),
    ],
)
def test_every_acknowledgement_has_the_next_offset(offsets: list[object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        python_load.acknowledged(offsets, 3)


class Notebook(Bench):
    """Only writes down what it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Barnabas(folder / "none", {}), folder, folder, scale=1)
        self.asked: list[tuple[str, object]] = []

    def topic(self, partitions: int = 1, **configs: str) -> str:
        self.topics += 1
        return f"topic-{self.topics}"

    def python_load(self, client: str, mode: str, **options: Any) -> Outcome:
        self.asked.append((mode, options["topic"]))
        return {"seconds": 1.0, "p50_ms": 1.0, "p99_ms": 1.0}


def test_all_that_the_scenario_writes_is_read_back(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    python_clients.measure(notebook, Case("kafka-python", {"records": RECORDS}))
    written = [topic for mode, topic in notebook.asked if mode != "consume"]
    assert [topic for mode, topic in notebook.asked if mode == "consume"] == written == ["topic-1", "topic-2"]
