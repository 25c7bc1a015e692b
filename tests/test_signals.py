"""The tests themselves can be started with signals ignored, as `nohup` and a shell's background do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What is ignored stays ignored when pytest takes the place of this program.
IGNORING = """
import os, signal, sys
for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT", "SIGCHLD"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
"""

PRINT_IGNORED = """
import signal
print(*(number for number in sorted(signal.valid_signals()) if signal.getsignal(number) is signal.SIG_IGN))
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_children_hear_signals_that_pytest_was_started_to_ignore(processes: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", IGNORING, "-q", "-n", processes, "-p", "no:cacheprovider"]
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'inner'}", __file__, "-k", "process_begins or goes_on"],
        cwd=ROOT,
        env=mine,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_process_begins_with_no_signal_ignored() -> None:
    done = subprocess.run([sys.executable, "-c", PRINT_IGNORED], capture_output=True, text=True, check=True)
    assert [int(word) for word in done.stdout.split()] == sorted({signal.SIGPIPE, signal.SIGXFSZ})  # Python's own


def test_pytest_goes_on_when_it_gets_a_signal_that_it_was_started_to_ignore() -> None:
    for number in signal.valid_signals():
        if getattr(signal.getsignal(number), "__name__", "") == "do_nothing":
            signal.raise_signal(number)
