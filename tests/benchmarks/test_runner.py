"""How long brokers are warmed up, what a signal leaves behind, and the network that both get."""

import signal
import subprocess
import sys
from collections.abc import Iterator
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
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    runner.warm_up(cast(Bench, SimpleNamespace(scale=1.0)))
    assert now[0] == windows * window_s


def test_a_case_may_have_fewer_rounds_than_its_scenario() -> None:
    cases = (Case("often"), Case("seldom", samples_at_most=2))
    scenario = Scenario("any", "Any", "How.", (), cases, lambda _bench, _case: {})
    plan = Plan([scenario], [], 3, 1.0, False, Path(), Path())
    taken = [[case.name for case in plan.cases(scenario, number)] for number in range(3)]
    assert taken == [["often", "seldom"], ["often", "seldom"], ["often"]]


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
