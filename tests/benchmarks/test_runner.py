"""How long brokers are warmed up, what a signal leaves behind, and the network that both get."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks import runner
from benchmarks.bench import Bench
from benchmarks.runner import Plan
from benchmarks.scenario import Case, Scenario


@pytest.mark.parametrize(
    ("costs", "window_s", "windows"),
    [
        ([5.0, 5.2], 1.0, 2),  # never less than two: one alone agrees with nothing
        ([9.0, 6.0, 4.0, 3.8], 1.0, 4),  # until a window costs what the one before did
        ([3.0, 4.0, 3.0, 3.0], 1.0, 4),  # more is no agreement either
        ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 1.0, 6),  # and not beyond six seconds
        ([9.0, 7.0, 5.0], 3.0, 2),  # a third would end after nine
        ([9.0, 7.0, 5.0], 20.0, 2),
    ],
)
def test_a_broker_is_warm_when_the_same_load_costs_the_same(
    monkeypatch: pytest.MonkeyPatch, costs: list[float], window_s: float, windows: int
) -> None:
    now, left = [0.0], iter(costs)

    def load_a_window(_bench: Bench) -> float:
        now[0] += window_s
        return next(left)

    monkeypatch.setattr(runner, "load_a_window", load_a_window)
    monkeypatch.setattr("benchmarks.runner.time.monotonic", lambda: now[0])
    runner.warm_up(cast(Bench, SimpleNamespace(scale=1.0)))
    assert now[0] == windows * window_s


def scenario(name: str, *cases: Case, warm_up: bool = True, samples_at_most: int = 1000) -> Scenario:
    return Scenario(name, "", "", (), cases, lambda *_: {}, warm_up=warm_up, samples_at_most=samples_at_most)


def sessions(plan: Plan) -> list[list[list[str]]]:
    """The names of the cases: by round, by broker."""
    rounds = (plan.sessions(number) for number in range(plan.samples))
    return [[[case.name for _, case in work] for work in round] for round in rounds]


def test_each_scenario_has_a_broker_and_a_case_may_have_fewer_rounds_than_others() -> None:
    often = scenario("often", Case("a"), Case("b", samples_at_most=2))
    once = scenario("once", Case("c"), samples_at_most=1)
    plan = Plan([often, once], [], 3, 1.0, False, Path(), Path())
    assert sessions(plan) == [[["a", "b"], ["c"]], [["a", "b"]], [["a"]]]


def test_the_scenarios_of_a_quick_run_share_brokers_of_a_kind() -> None:
    cold = scenario("cold", Case("a", quick=True), warm_up=False)
    warm = scenario("warm", Case("b", quick=True), Case("slow"))
    set_up = replace(scenario("set up", Case("c", quick=True)), settings={"num.partitions": "3"})
    warm_too = scenario("warm too", Case("d", quick=True))
    plan = Plan([cold, warm, set_up, warm_too], [], 1, 0.2, True, Path(), Path())
    assert sessions(plan) == [[["a"], ["b", "d"], ["c"]]]


WAITS = """
import time
from benchmarks.processes import end_in_order
end_in_order()
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    print("cleaned up", flush=True)
"""


@pytest.fixture
def waiting() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_cleans_up(waiting: "subprocess.Popen[str]", number: signal.Signals) -> None:
    waiting.send_signal(number)
    assert waiting.communicate(timeout=20)[0] == "cleaned up\n"


OWN_NETWORK = """
import socket
from benchmarks import network
outside = network.congestion_control()
entered = network.enter_own()
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
    print(entered, network.congestion_control() == (network.SAME if entered else outside))
"""


def test_loopback_works_in_a_network_of_the_runs_own_and_the_system_keeps_its_setting() -> None:
    """Where it may not have one it has what it had before."""
    setting = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    before = setting.read_text() if setting.exists() else ""
    done = subprocess.run([sys.executable, "-c", OWN_NETWORK], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "True"
    assert (setting.read_text() if setting.exists() else "") == before
