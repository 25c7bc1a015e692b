"""The time as a state machine knows it: what it was told last, and the one timer by which it is told again."""

from collections.abc import Callable

from barnabas.base.environment import Clock, Timer


class MachineTime:
    __slots__ = ("_clock", "_due_ms", "_early_ms", "_tick", "_timer", "told_ms")

    def __init__(self, clock: Clock, tick: Callable[[], None], early_ms: int) -> None:
        """Takes `early_ms`, how much too early the timer may be: so it need not be moved all the time."""
        self._clock = clock
        self._tick = tick
        self._early_ms = early_ms
        self._timer: Timer | None = None
        self._due_ms = 0
        self.told_ms = 0
        """The time that the machine was last told: what was due then and not done waits for something else than
        time."""

    def tell_ms(self) -> int:
        """Returns the time for the machine, which knows it then."""
        self.told_ms = self._clock.monotonic_ms()
        return self.told_ms

    def wake_at(self, due_ms: int) -> None:
        if self._timer is not None:
            if self._due_ms <= due_ms < self._due_ms + self._early_ms:
                return
            self._timer.cancel()
        self._due_ms = due_ms
        self._timer = self._clock.call_later(max(0, due_ms - self._clock.monotonic_ms()), self._wake)

    def catch_up(self) -> None:
        """Ticks at once if the timer is late: a process that stood still handles requests before timers."""
        if self._timer is not None and self._due_ms <= self._clock.monotonic_ms():
            self._timer.cancel()
            self._wake()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        self._timer = None
        self._tick()
