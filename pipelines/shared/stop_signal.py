"""Turns Ctrl-C and SIGTERM into a request: what is under way is finished first. A second Ctrl-C does not wait."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

POLL_S = 0.2


class StopSignal:
    """A context manager. In a thread that gets no signals it is never set."""

    def __init__(self) -> None:
        self.is_set = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._on) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Returns early if the signal comes."""
        until = time.monotonic() + seconds
        while not self.is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))

    def _on(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
