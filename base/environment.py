"""The world as a broker sees it: time, network, disk, threads, another process, randomness, and a log for people.

Nothing below the command line reaches for these by itself: everything comes in through one `Environment`. Production
builds it in `broker/system/environment.py`, the simulator in `tests/simulation/`.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from barnabas.base.files import Files
from barnabas.base.network import Network
from barnabas.base.promise import Promise
from barnabas.protocol.named_tuple import NamedTuple

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall-clock time for what is stored, and timers for what must happen later, on the loop's thread."""

    expects_more: bool
    """A hint from the receiving side: small requests came, and their senders may send the next ones at once."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int:
        """Returns a time that never jumps when the wall clock is set, to measure durations."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[..., None], *args: Any) -> Timer: ...

    def call_when_awake(self, delay_ms: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Calls after the delay as soon as something else is to be done, or an eighth of it later: to wake up is most
        of what a timer costs an idle broker."""
        ...

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None: ...

    def call_when_idle(self, callback: Callable[..., None], *args: Any) -> None:
        """Calls soon, but after the requests that are already at hand, unless they keep coming."""
        ...


class Workers(Protocol):
    """Runs blocking work elsewhere. The promise is settled on the loop's thread."""

    def run(self, job: Callable[[], T]) -> Promise[T]: ...


class Random(Protocol):
    """The part of `random.Random` that is needed."""

    def getrandbits(self, k: int, /) -> int: ...

    def randbytes(self, n: int, /) -> bytes: ...

    def randrange(self, stop: int, /) -> int: ...


class Report(Protocol):
    """The broker's log: a sentence for people and, beside it, the same facts as fields for programs."""

    def info(self, text: str, **fields: object) -> None: ...

    def warning(self, text: str, **fields: object) -> None: ...

    def error(self, text: str, **fields: object) -> None: ...


def report_bug(report: Report, error: BaseException) -> None:
    """Reports an exception that nobody expected, with its traceback."""
    from traceback import format_exception

    report.error(f"a bug: {error!r}", traceback="".join(format_exception(error)))


class Compactor(Protocol):
    """The process that compacts logs, one job at a time. `storage/compaction/cleaner.py` says what travels: a job in, a
    cleaned segment at a time out, then the statistics or an error. All callbacks run on the loop's thread."""

    def start(
        self, job: Any, on_cleaned: Callable[[Any], None], on_done: Callable[[Any, Exception | None], None]
    ) -> None: ...

    def cancel(self) -> None:
        """Ends the job. When this returns nothing is written any more, and no callback follows."""
        ...


class Environment(NamedTuple):
    clock: Clock
    network: Network
    files: Files
    workers: Workers
    random: Random
    report: Report
    compactor: Compactor
    open_files_max: int = 1_000
    """How many files of logs may be open at once."""
