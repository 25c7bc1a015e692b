"""A supervisor and its children as real processes. Each test waits for lines that they print, and for nothing else."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.barnabas.processes import TIMEOUT_S, environment

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the children count their descriptors")


class Started(NamedTuple):
    node_id: int
    pid: int
    sockets: int


class Supervised:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self._lines = process.stdout

    def line(self) -> str:
        line = self._lines.readline()
        assert line, self.process.communicate(timeout=TIMEOUT_S)
        return line.strip()

    def started(self) -> Started:
        word, *numbers = self.line().split()
        assert word == "started"
        return Started(*map(int, numbers))

    def ready(self, count: int) -> dict[int, Started]:
        """The children by node, once all are ready. The last to start is not always the last to be heard."""
        children = [self.started() for _ in range(count)]
        assert self.line() == "ready"
        return {child.node_id: child for child in children}

    def rest(self) -> list[str]:
        """Every line up to the end: the last process that could write one is gone."""
        return [line.strip() for line in self._lines]

    def end(self) -> tuple[int, str]:
        """The exit code and the log."""
        _, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, err


@contextmanager
def supervised(count: int, *behaviours: str) -> Iterator[Supervised]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.barnabas.cluster.small_children", str(count), *behaviours],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            yield Supervised(process)
        finally:
            process.kill()  # its children notice


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_children_leave_one_after_the_other_before_they_stop(number: int) -> None:
    with supervised(3) as running:
        running.ready(3)
        running.process.send_signal(number)
        assert [running.line() for _ in range(3)] == ["leaves 3", "leaves 2", "leaves 1"]
        assert sorted(running.line() for _ in range(3)) == ["stopped 1", "stopped 2", "stopped 3"]
        assert running.line() == "end"
        assert running.end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_that_ends_is_started_again_at_once(number: int) -> None:
    with supervised(3) as running:
        children = running.ready(3)
        os.kill(children[2].pid, number)
        if number == signal.SIGTERM:
            assert running.line() == "stopped 2"
        again = running.started()
        assert again.node_id == 2
        assert again.pid != children[2].pid
        running.process.terminate()
        assert "ready" not in running.rest()  # that is said once
        status, err = running.end()
    assert status == 0
    assert re.search("WARN  node 2 (was ended by SIGKILL|ended with exit code 0); it is started again now", err)


def test_a_child_has_nothing_of_the_others() -> None:
    with supervised(3) as running:
        children = running.ready(3)
        os.kill(children[1].pid, signal.SIGKILL)
        assert running.started().sockets == 1  # its own channel, although two more are open in its parent
        assert {child.sockets for child in children.values()} == {1}


def test_children_stop_when_their_supervisor_is_gone() -> None:
    with supervised(3) as running:
        running.ready(3)
        running.process.kill()
        lines = running.rest()
    assert sorted(lines) == sorted(f"{word} {node_id}" for word in ("orphaned", "stopped") for node_id in (1, 2, 3))


def test_children_stop_when_their_supervisor_is_gone_although_one_was_started_again() -> None:
    """What is forked later must not hold the others' channels open."""
    with supervised(3) as running:
        children = running.ready(3)
        os.kill(children[1].pid, signal.SIGKILL)
        running.started()
        running.process.kill()
        assert len(running.rest()) == 6


def test_a_child_that_cannot_start_ends_all_and_has_the_last_word() -> None:
    with supervised(3, "2=fails") as running:
        lines = running.rest()
        status, err = running.end()
    assert (status, err) == (1, "")
    assert lines[-1] == "end cannot do anything"
    assert "ready" not in lines


def test_a_child_that_crashes_is_reported_and_tried_again() -> None:
    with supervised(1, "1=crashes") as running:
        assert running.process.stderr is not None
        log = [running.process.stderr.readline()]
        while "started again in" not in log[-1]:
            log.append(running.process.stderr.readline())
        running.process.terminate()
        assert running.end()[0] == 0
    assert any("a bug: RuntimeError('not expected')" in line for line in log)
    assert any("node 1 ended with exit code 70; it is started again now" in line for line in log)


def test_a_second_signal_does_not_wait() -> None:
    with supervised(2, "1=stubborn", "2=stubborn") as running:
        running.ready(2)
        running.process.send_signal(signal.SIGTERM)
        assert sorted(running.line() for _ in range(2)) == ["ignored 1", "ignored 2"]  # once leaving took too long
        running.process.send_signal(signal.SIGINT)
        assert running.rest() == ["end"]
        assert running.end()[0] == 130


def test_a_hang_up_restarts_one_after_the_other() -> None:
    with supervised(3) as running:
        children = running.ready(3)
        running.process.send_signal(signal.SIGHUP)
        for node_id in (1, 2, 3):
            assert running.line() == f"stopped {node_id}"
            again = running.started()
            assert again.node_id == node_id
            assert again.pid != children[node_id].pid
        running.process.terminate()
        assert running.rest()[-1] == "end"
        status, err = running.end()
    assert status == 0
    assert "WARN" not in err  # that is what was asked for


def test_a_flood_of_signals_leaves_nobody_behind() -> None:
    with supervised(3) as running:
        running.ready(3)
        while running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
        assert running.rest()[-1] == "end"
        assert running.process.returncode in (0, 143, -signal.SIGTERM)  # Python's last steps are without a handler


def test_processes_that_lost_their_parent_are_reaped() -> None:
    """As the first process of a container, a supervisor inherits them. Linux lets any process have that part."""
    program = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); sys.argv = ['', '1', '1=orphans'];"
        "import tests.barnabas.cluster.small_children as small; sys.exit(small.main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        running = Supervised(process)
        lines = [running.line() for _ in range(3)]
        (orphan,) = [int(line.split()[1]) for line in lines if line.startswith("orphan")]
        deadline = time.monotonic() + TIMEOUT_S
        while os.path.exists(f"/proc/{orphan}"):
            assert time.monotonic() < deadline, "it is still a zombie"
            time.sleep(0.01)
        process.terminate()
        assert running.rest()[-1] == "end"
