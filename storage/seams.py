"""What is handed in: time, workers and the log that people read.

Nothing below the command line reaches for these by itself. Production hands in the event loop, threads and a writer of
lines; the simulator hands in virtual time, inline workers with a simulated duration and a list.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall-clock time for what is stored, and timers for what must happen later, on the loop's thread."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int:
        """For how long something takes: it never jumps when the wall clock is set."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[..., None], *args: Any) -> Timer: ...

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None: ...

    def call_when_idle(self, callback: Callable[..., None], *args: Any) -> None:
        """Soon, but behind the requests that are at hand already, unless these do not end."""
        ...


class Workers(Protocol):
    """Runs blocking work elsewhere. `then(result, error)` is called on the loop's thread; exactly one of the two is set
    unless the job returned None."""

    def run(self, job: Callable[[], T], then: Callable[[T | None, BaseException | None], None]) -> None: ...


class Report(Protocol):
    """The broker's log: a sentence for people and, beside it, the same facts as fields for programs."""

    def info(self, text: str, **fields: object) -> None: ...

    def warning(self, text: str, **fields: object) -> None: ...

    def error(self, text: str, **fields: object) -> None: ...
