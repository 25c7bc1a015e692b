"""The load generator: builds native/ with gcc and runs it. native/load.h says what it measures."""

import ctypes.util
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.systems import ROOT, Failed

SOURCES = Path(__file__).resolve().parent / "native"
COMPILER = ("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
LINE_SECONDS = 600  # no set-up and no sample takes as long: a generator that is silent until then hangs
END_SECONDS = 5  # a Spark session takes a moment to end, and removes its folder when it does

Outcome = dict[str, float]


def missing() -> str | None:
    """Returns one line that says what to install, or None."""
    if shutil.which("gcc") is None:
        return "the load generator is C: install gcc and librdkafka (Debian: gcc libc6-dev librdkafka-dev)"
    probe = subprocess.run(
        ["gcc", "-E", "-x", "c", "-"], input="#include <librdkafka/rdkafka.h>\n", capture_output=True, text=True
    )
    if probe.returncode or ctypes.util.find_library("rdkafka") is None:
        return "the load generator needs librdkafka and its headers (Debian: librdkafka-dev)"
    return None


def build() -> Path:
    """Returns the program, compiled again only when its sources change."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources) + repr(COMPILER).encode()).hexdigest()[:16]
    program = ROOT / ".cache" / "load" / f"load-{digest}"
    if program.is_file():
        return program
    shutil.rmtree(program.parent, ignore_errors=True)
    program.parent.mkdir(parents=True)
    half = program.with_suffix(f".{os.getpid()}")
    code = [str(path) for path in sources if path.suffix == ".c"]
    done = subprocess.run([*COMPILER, *code, "-lrdkafka", "-o", str(half)], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the load generator could not be built:\n{done.stderr}")
    half.rename(program)
    return program


class Load:
    """One run of the generator: set up when created, under way after `go`, finished with `result`."""

    def __init__(self, command: list[str], options: dict[str, Any], line_seconds: float = LINE_SECONDS) -> None:
        words = [f"{key}={value}" for key, value in options.items()]
        self._popen = subprocess.Popen(
            [*command, *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._mode = command[-1]
        self._line_seconds = line_seconds
        self._unread = b""

    def wait_until_ready(self) -> None:
        if (line := self._line()) != "ready":
            self._refuse(line)

    def run(self) -> Outcome:
        self.go()
        return self.result()

    def go(self) -> None:
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(b"\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            pass  # why it ended is what `result` reads

    def result(self) -> Outcome:
        line = self._line()
        if not line.startswith("{") or "error" in (found := json.loads(line)):
            self._refuse(line)
        outcome: Outcome = found
        return outcome

    def close(self) -> None:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()  # a generator that still waits for `go` ends with that
        try:
            self._popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        self._popen.stdout.close()

    def _line(self) -> str:
        assert self._popen.stdout is not None
        out, deadline = self._popen.stdout.fileno(), time.monotonic() + self._line_seconds
        while b"\n" not in self._unread:
            if not select.select([out], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self._kill()
                raise Failed(f"the load generator hung in {self._mode}: it said nothing for {self._line_seconds:g} s")
            if not (more := os.read(out, 1 << 16)):
                break
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace").strip()

    def _kill(self) -> None:
        """Kills the process with all that it started, such as Spark's JVM."""
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def _refuse(self, line: str) -> None:
        if line.startswith("{"):
            raise Failed(json.loads(line)["error"])
        self.close()
        raise Failed(f"the load generator ended in {self._mode}: {line or f'exit code {self._popen.returncode}'}")


@contextmanager
def loading(command: list[str], options: dict[str, Any], line_seconds: float = LINE_SECONDS) -> Iterator[Load]:
    load = Load(command, options, line_seconds)
    try:
        load.wait_until_ready()
        yield load
    finally:
        load.close()
