"""Processes that are always ended, and what the kernel says about them: CPU time and memory, children included."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import FrameType

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
END_SECONDS = 60


def end_in_order() -> None:
    """Ends what was started and removes its data on SIGTERM, and on SIGHUP when a terminal goes away, as Ctrl-C
    does."""
    signal.signal(signal.SIGTERM, _interrupted)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup: it is to go on
        signal.signal(signal.SIGHUP, _interrupted)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Process:
    """A process in a group of its own: Ctrl-C reaches the harness alone, which then ends what it started, by id."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("ab") as file:
            self._popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, cwd=log.parent
            )
        self.pid = self._popen.pid

    def ended(self) -> bool:
        return self._popen.poll() is not None

    def send(self, number: signal.Signals) -> None:
        if self._popen.poll() is None:
            self._popen.send_signal(number)

    def wait(self) -> None:
        """Waits until the process has ended. One that takes too long is killed."""
        try:
            self._popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def end(self, number: signal.Signals) -> None:
        """Ends the process and its descendants, which it can no longer end itself if it was killed."""
        children = tree(self.pid)[1:]
        self.send(number)
        self.wait()
        for child in children:
            try:
                if os.getsid(child) == self.pid:  # an id that now belongs to somebody else is not ours to end
                    os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass


def tree(pid: int) -> list[int]:
    """Returns the process and all its descendants that are there now."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Returns user and system time so far, with that of children that ended and were waited for.

    A process's own time is read from its CPU clock: it is what /proc says as utime and stime, in nanoseconds instead of
    ticks of 10 ms, which would be a tenth of what a quick case takes.
    """
    seconds = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += time.clock_gettime(cpu_clock(pid)) + sum(map(int, fields[13:15])) / CLOCK_TICKS
        except OSError:
            continue
    return seconds


def cpu_clock(pid: int) -> int:
    """Returns what clock_getcpuclockid(3) answers on Linux; Python has no name for it."""
    return ~pid << 3 | 2


def rss_mb(pids: list[int]) -> float:
    return sum(_status_kb(pid, "VmRSS:") for pid in pids) * 1024 / 1e6


def _status_kb(pid: int, key: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)
