"""Where all threads of a run write down what happens, in one order, and where it is judged at once."""

import threading
import time
from typing import TextIO

from barnabas.verification.events import Event
from barnabas.verification.history import line_of
from barnabas.verification.judge import Judge, Verdict


class Tape:
    def __init__(self, file: TextIO | None) -> None:
        self._lock = threading.Lock()
        self._file = file
        self.judge = Judge()

    def record(self, event: Event) -> None:
        with self._lock:
            self.judge.see(event)
            if self._file is not None:
                self._file.write(line_of(event) + "\n")

    def verdict(self) -> Verdict:
        with self._lock:
            return self.judge.verdict()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
