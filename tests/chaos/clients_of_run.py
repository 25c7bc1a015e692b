"""The client processes of a run: what they write goes to journals, and they are told when it is over."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.chaos.clients.given import Given
from tests.chaos.systems import ENVIRONMENT
from tests.chaos.world import CLIENTS, World
from tests.kafka_jars import java_command

_COUNTED = {"sent": '"event":"sent"', "acknowledged": '"event":"acknowledged"', "polled": '"event":"polled"'}
Offsets = dict[str, dict[int, int]]


class ClientFailed(Exception):
    """A client ended by itself, or does not answer: the run says nothing about the brokers."""


def command_of(name: str, given: Given) -> list[str]:
    if name == "java":
        return java_command("ChaosClient.java", *map(str, given))
    module = f"tests.chaos.clients.{name.replace('-', '_')}"
    return [sys.executable, "-m", module, json.dumps(given._asdict())]


class ClientProcess:
    def __init__(self, name: str, given: Given, world: World) -> None:
        self.name = name
        self.journal = world.folder / f"journal-{name}"
        self.counts = dict.fromkeys(_COUNTED, 0)
        self._log = world.folder / f"client-{name}.log"
        self._answers: list[str] = []
        self._process = self._started(world.command(CLIENTS, command_of(name, given)))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _started(self, command: list[str]) -> "subprocess.Popen[str]":
        with self._log.open("w") as log:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT
            )

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self.journal.open("w") as file:
            for line in self._process.stdout:
                if line.startswith("!"):
                    file.flush()
                    self._answers.append(line[1:].strip())
                    continue
                file.write(line)
                for name, words in _COUNTED.items():
                    if words in line:
                        self.counts[name] += 1
                        break

    def tell(self, word: str, ends: Offsets | None = None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word} {json.dumps(ends)}\n" if ends is not None else f"{word}\n")
        self._process.stdin.flush()

    def wait_for_answer(self, word: str, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while word not in self._answers:
            self.check()
            if time.monotonic() > deadline:
                raise ClientFailed(f"{self.name} has not answered {word!r}")
            time.sleep(0.02)

    def check(self) -> None:
        if self._process.poll() is not None:
            said = self._log.read_text(errors="replace")[-2000:]
            raise ClientFailed(f"{self.name} ended with {self._process.returncode}: {said}")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


class Clients(NamedTuple):
    """All of them."""

    processes: list[ClientProcess]

    def named(self, name: str) -> ClientProcess:
        return next(process for process in self.processes if process.name == name)

    def journals(self, names: Iterable[str]) -> list[Path]:
        return [self.named(name).journal for name in names]

    def count(self, what: str) -> int:
        return sum(process.counts[what] for process in self.processes)

    def check(self) -> None:
        for process in self.processes:
            process.check()

    def ask(self, word: str, within_s: float, ends: Offsets | None = None) -> None:
        """Tells all of them, and waits until all have done it."""
        for process in self.processes:
            process.tell(word, ends)
        for process in self.processes:
            process.wait_for_answer(word, within_s)

    def behind(self, before: list[dict[str, int]]) -> list[str]:
        """Returns the names of those that had nothing acknowledged, or read nothing, since then."""
        return [
            process.name
            for process, counts in zip(self.processes, before)
            if any(process.counts[what] <= counts[what] for what in ("acknowledged", "polled"))
        ]

    def end(self) -> None:
        for process in self.processes:
            process.end()
