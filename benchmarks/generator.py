"""The load generator: builds native/ with gcc and runs it. What it measures is told in native/load.h."""

import ctypes.util
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.systems import ROOT, Failed

SOURCES = Path(__file__).resolve().parent / "native"
COMPILER = ("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")

Outcome = dict[str, float]


def missing() -> str | None:
    """One line that says what to install, or None."""
    if shutil.which("gcc") is None:
        return "the load generator is C: install gcc and librdkafka (Debian: gcc libc6-dev librdkafka-dev)"
    probe = subprocess.run(
        ["gcc", "-E", "-x", "c", "-"], input="#include <librdkafka/rdkafka.h>\n", capture_output=True, text=True
    )
    if probe.returncode or ctypes.util.find_library("rdkafka") is None:
        return "the load generator needs librdkafka and its headers (Debian: librdkafka-dev)"
    return None


def build() -> Path:
    """The program, compiled again only when its sources change."""
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
    """One run of the generator: set up when made, under way after `go`, finished with `result`."""

    def __init__(self, command: list[str], options: dict[str, Any]) -> None:
        words = [f"{key}={value}" for key, value in options.items()]
        self._popen = subprocess.Popen(
            [*command, *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._mode = command[-1]

    def wait_until_ready(self) -> None:
        if (line := self._line()) != "ready":
            self._refuse(line)

    def run(self) -> Outcome:
        self.go()
        return self.result()

    def go(self) -> None:
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write("\n")
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
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self) -> str:
        assert self._popen.stdout is not None
        return self._popen.stdout.readline().strip()

    def _refuse(self, line: str) -> None:
        if line.startswith("{"):
            raise Failed(json.loads(line)["error"])
        raise Failed(f"the load generator ended in {self._mode}: {line or f'exit code {self._popen.wait()}'}")


@contextmanager
def loading(command: list[str], options: dict[str, Any]) -> Iterator[Load]:
    load = Load(command, options)
    try:
        load.wait_until_ready()
        yield load
    finally:
        load.close()
