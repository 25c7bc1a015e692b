"""Which broker of several a load goes to."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks.bench import Bench
from benchmarks.systems import System


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["one"], ["one", "one", "one"]),  # there is no other
        (["one", "two"], ["one", "two", "one"]),  # in turns
    ],
)
def test_loads_at_once_go_to_a_broker_each(addresses: list[str], expected: list[str]) -> None:
    system = cast(System, SimpleNamespace(addresses=addresses))
    bench = Bench(system, Path(), Path(), scale=1)
    assert [one.address for one in bench.brokers(3)] == expected
    assert len({one.topic_prefix for one in bench.brokers(3)}) == 3, "their topics are different ones"
    assert bench.brokers(3) == bench.brokers(3), "and go on counting"
