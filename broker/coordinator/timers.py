"""The timers of one state machine, run by one timer of the loop."""

from collections.abc import Callable, Hashable

from barnabas.base.deadlines import Deadlines
from barnabas.base.environment import Clock
from barnabas.broker.coordinator.definition import Operation


class CoordinatorTimers:
    """Time is the loop's monotonic one."""

    def __init__(self, clock: Clock, run: Callable[[Hashable, Operation], None]) -> None:
        self._monotonic_ms = clock.monotonic_ms
        self._run = run
        self._operations: dict[Hashable, Operation] = {}
        self._deadlines: Deadlines[Hashable] = Deadlines(clock, clock.monotonic_ms, self._fire)

    def keys(self) -> list[Hashable]:
        return self._deadlines.keys()

    def schedule(self, key: Hashable, delay_ms: int, operation: Operation) -> None:
        self._operations[key] = operation
        self._deadlines.schedule(key, self._monotonic_ms() + delay_ms)

    def run(self, key: Hashable, operation: Operation) -> None:
        self.cancel(key)
        self._run(key, operation)

    def cancel(self, key: Hashable) -> None:
        self._operations.pop(key, None)
        self._deadlines.cancel(key)

    def is_scheduled(self, key: Hashable) -> bool:
        return key in self._deadlines

    def clear(self) -> None:
        self._operations.clear()
        self._deadlines.clear()

    def _fire(self, key: Hashable, _due_ms: int, _now_ms: int) -> None:
        self._run(key, self._operations.pop(key))
