"""`barnabas groups lag --watch` as a user sees it: a process, a pipe, a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.testing import Broker
from tests.barnabas.processes import TIMEOUT_S, environment, run

LAG = (sys.executable, "-m", "barnabas", "groups", "lag")


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    """Of a broker with one group, `billing`, that is 3 records behind."""
    with Broker() as broker:
        yield prepared(broker.bootstrap_servers)


def prepared(servers: str) -> dict[str, str]:
    env = environment(BARNABAS_BOOTSTRAP_SERVERS=servers, LINES="24")
    assert run("produce", "watched", "-p", "0", stdin=b"1\n2\n3\n", env=env).returncode == 0
    reset = run("groups", "reset-offsets", "billing", "--topic", "watched:0", "--to-offset", "0", "--execute", env=env)
    assert reset.returncode == 0, reset.stderr
    return env


def stopped(process: "subprocess.Popen[bytes]") -> tuple[int, bytes]:
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, err


def test_a_pipe_gets_one_picture_after_the_other_until_ctrl_c(env: dict[str, str]) -> None:
    with subprocess.Popen(
        [*LAG, "--watch", "0.1", "billing"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(10)]
        assert stopped(process) == (0, b"")
    pictures = [lines[:5], lines[5:]]
    for moment, title, columns, row, nothing in pictures:
        assert moment.endswith(b"Z\n")
        assert title.startswith(b"billing  (Empty, 3 records behind, the oldest ")
        assert (columns.split()[0], row.split()[:5]) == (b"TOPIC", [b"watched", b"0", b"0", b"3", b"3"])
        assert nothing == b"\n"


def test_a_program_gets_a_line_of_json_each_time(env: dict[str, str]) -> None:
    with subprocess.Popen(
        [*LAG, "billing", "--json", "--watch=0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert stopped(process) == (0, b"")
    assert [look["groups"][0]["total_lag"] for look in looks] == [3, 3]
    assert looks[0]["time"] < looks[1]["time"]


def test_a_terminal_is_redrawn_in_place(env: dict[str, str]) -> None:
    terminal, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*LAG, "--watch", "0.1", "billing"], stdout=theirs, stderr=subprocess.PIPE, env=env
        ) as process:
            os.close(theirs)
            seen = b""
            while seen.count(b"\x1b[J") < 2:
                seen += os.read(terminal, 65536)
            assert stopped(process) == (0, b"")
    finally:
        os.close(terminal)
    assert seen.startswith(b"\x1b[2J\x1b[H")
    assert seen.count(b"\x1b[2J") == 1
    assert seen.count(b"billing  (Empty, 3 records behind") >= 2


def test_an_unknown_group_is_not_waited_for(env: dict[str, str]) -> None:
    done = run("groups", "lag", "bling", "--watch", env=env)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"group bling does not exist (did you mean billing?)" in done.stderr


def test_a_broker_that_goes_away_is_waited_for() -> None:
    with Broker() as broker:
        env = prepared(broker.bootstrap_servers)
        process = subprocess.Popen(
            [*LAG, "--watch", "0.1", "billing"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        assert process.stdout is not None
        process.stdout.readline()
    with process:
        assert process.stderr is not None
        assert process.stderr.readline().endswith(b"; trying again\n")
        assert stopped(process)[0] == 0
