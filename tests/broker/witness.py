"""Those who watch a broker while a test does its worst: a healthy client beside the bad ones, and the broker's log."""

import threading
import time
from types import TracebackType
from typing import Self

from tests.broker.wire import RawClient, batch_of, values_of

STALL_CPU_S_MAX = 2.0
"""How much the broker, the client and the test may work while the client waits for one round. It is CPU time, because
on a busy machine everybody waits. A broker that never answers runs into the client's timeout."""


class Lines:
    """A broker's log as a list."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def info(self, text: str, **_fields: object) -> None:
        self.lines.append(("info", text))

    def warning(self, text: str, **_fields: object) -> None:
        self.lines.append(("warning", text))

    def error(self, text: str, **fields: object) -> None:
        self.lines.append(("error", f"{text}\n{fields.get('traceback', '')}"))

    def errors(self) -> list[str]:
        return [text for level, text in self.lines if level == "error"]

    def saying(self, text: str) -> list[str]:
        return [line for _level, line in self.lines if text in line]


class HealthyClient:
    """Produces and reads back without a pause. Nothing may disturb it, and nothing of what it wrote may change."""

    def __init__(self, port: int, topic: str) -> None:
        self._port = port
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="healthy-client")
        self._failure: BaseException | None = None
        self.rounds = 0
        self.longest_cpu_s = 0.0

    def __enter__(self) -> Self:
        self._client = RawClient(self._port)
        self._first_offset = self._client.list_offset(self._topic, -1).offset
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            with self._client:
                self._check()
        self._client.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                started = time.process_time()
                self._round()
                self.longest_cpu_s = max(self.longest_cpu_s, time.process_time() - started)
                self._stop.wait(0.002)
        except BaseException as error:
            self._failure = error

    def _round(self) -> None:
        values = [b"%d-%d" % (self.rounds, index) for index in range(3)]
        produced = self._client.produce(self._topic, batch_of(values))
        offset = self._first_offset + 3 * self.rounds
        assert (produced.error_code, produced.base_offset) == (0, offset)
        assert values_of(self._client.fetch(self._topic, offset)) == values
        self.rounds += 1

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        assert self.rounds > 0
        assert self.longest_cpu_s < STALL_CPU_S_MAX, f"stalled for {self.longest_cpu_s:.1f} s of CPU"
        expected = [b"%d-%d" % (number, index) for number in range(self.rounds) for index in range(3)]
        found: list[bytes | None] = []
        while len(found) < len(expected):
            values = values_of(self._client.fetch(self._topic, self._first_offset + len(found)))
            assert values, "records are missing"
            found += values
        assert found == expected


def wait_for_line(log: Lines, text: str) -> None:
    deadline = time.monotonic() + 10
    while not log.saying(text):
        assert time.monotonic() < deadline, f"nothing in the log says {text!r}: {log.lines}"
        threading.Event().wait(0.01)
