"""The event loop of one simulated process, with the turns of the real one (`broker/system/loop.py`).

A turn calls those whose transports are ready, then timers that are due, then what was to be called soon, and, if
nothing was ready, what was to be called when idle. Between two turns some microseconds pass, so that events pile up as
they do in a process that is busy. Within a turn time stands still.

An exception that escapes from a callback is a bug: it ends the simulation. `Crash` is the end of the process only.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol

from tests.simulation.files import Crash
from tests.simulation.scheduler import MS, Scheduler

Callback = Callable[..., None]
_BUSY_TURNS_MAX = 8
_TURN_US_MAX = 60
_WAKE_US_MAX = 50
_NEVER = 1 << 62
FIRST_MS = 1_700_000_000_000
"""The wall clock's time at the start of every simulation."""


class WallClock:
    """A machine's idea of the time of day. It may be wrong, and it may be set."""

    def __init__(self, scheduler: Scheduler, offset_ms: int = 0) -> None:
        self._scheduler = scheduler
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return FIRST_MS + self._scheduler.now_us // MS + self.offset_ms


class Watched(Protocol):
    """Something that a loop calls while it is ready."""

    def ready_events(self) -> int: ...

    def on_ready(self, events: int) -> None: ...


class SimulatedTimer:
    __slots__ = ("args", "callback", "loop")

    def __init__(self, loop: "SimulatedLoop", callback: Callback, args: tuple[Any, ...]) -> None:
        self.loop: SimulatedLoop | None = loop
        self.callback = callback
        self.args = args

    def cancel(self) -> None:
        if self.loop is not None:
            self.loop.timers -= 1
            self.loop = None
            self.callback, self.args = _nothing, ()


def _nothing() -> None: ...


class SimulatedLoop:
    """A `Clock`."""

    def __init__(
        self, scheduler: Scheduler, random: Random, wall_clock: WallClock, on_crash: Callable[[], None] | None = None
    ) -> None:
        """`on_crash` is called when the process dies in the middle of a turn; without it `Crash` ends the run."""
        self.scheduler = scheduler
        self.random = random
        self.timers = 0
        """How many wait to be called."""
        self.turns = 0
        self._wall_clock = wall_clock
        self.on_crash = on_crash
        self._heap: list[tuple[int, int, SimulatedTimer]] = []
        self._timers_made = 0
        self._soon: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._when_idle: list[tuple[Callback, tuple[Any, ...]]] = []
        self._from_threads: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._maybe_ready: dict[Watched, None] = {}
        self._busy_turns = 0
        self._free_us = 0
        self._next_turn_us = _NEVER
        self._wake_ups: set[int] = set()
        """When the scheduler will call: a turn that was put forward leaves its later time behind, for another."""
        self._is_in_turn = False
        self._when_stopped: Callable[[], None] | None = None
        self.is_paused = False
        self.is_dead = False
        self.expects_more = False

    # ---- the clock

    def now_ms(self) -> int:
        return self._wall_clock.now_ms()

    def monotonic_ms(self) -> int:
        return self.scheduler.now_us // MS

    def call_later(self, delay_ms: float, callback: Callback, *args: Any) -> SimulatedTimer:
        timer = SimulatedTimer(self, callback, args)
        self._timers_made += 1
        self.timers += 1
        due_us = self.scheduler.now_us + max(int(delay_ms * MS), 0)
        heappush(self._heap, (due_us, self._timers_made, timer))
        if not self._is_in_turn:
            self._wake(due_us)
        return timer

    def call_when_awake(self, delay_ms: float, callback: Callback, *args: Any) -> SimulatedTimer:
        return self.call_later(delay_ms, callback, *args)

    def call_soon(self, callback: Callback, *args: Any) -> None:
        self._soon.append((callback, args))
        if not self._is_in_turn:
            self._wake(self.scheduler.now_us)

    def call_when_idle(self, callback: Callback, *args: Any) -> None:
        self._when_idle.append((callback, args))
        if not self._is_in_turn:
            self._wake(self.scheduler.now_us)

    # ---- what others bring

    def call_from_thread(self, callback: Callback, *args: Any) -> None:
        if not self.is_dead:
            self._from_threads.append((callback, args))
            self._wake_up()

    def may_be_ready(self, watched: Watched) -> None:
        if not self.is_dead:
            self._maybe_ready[watched] = None
            self._wake_up()

    def forget(self, watched: Watched) -> None:
        self._maybe_ready.pop(watched, None)

    @property
    def is_quiet(self) -> bool:
        """Nothing but timers is left to do."""
        return not (self._soon or self._when_idle or self._from_threads or self._maybe_ready)

    def pending_timers(self) -> list[str]:
        """The names of what timers will call."""
        return sorted(
            f"{timer.callback.__module__}.{timer.callback.__qualname__}"
            for _, _, timer in self._heap
            if timer.loop is not None
        )

    # ---- the life of the process

    def pause(self) -> None:
        """The process stands still. Bytes still arrive, what the kernel was asked to do is still done."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._arm()

    def stop(self, then: Callable[[], None]) -> None:
        """Turns no more, as the real loop does: whoever says so goes on, and so do all others of this turn."""
        assert self._is_in_turn, "nobody else could stop it"
        self._when_stopped = then

    def die(self) -> None:
        self.is_dead = True
        self.timers = 0
        self._heap.clear()
        self._soon.clear()
        self._when_idle.clear()
        self._from_threads.clear()
        self._maybe_ready.clear()

    # ---- turns

    def _wake_up(self) -> None:
        """A process that sleeps takes a moment to wake up; more may happen meanwhile."""
        if not self._is_in_turn and self._next_turn_us > self.scheduler.now_us + _WAKE_US_MAX:
            self._wake(self.scheduler.now_us + int(self.random.random() * _WAKE_US_MAX))

    def _wake(self, when_us: int) -> None:
        when_us = max(when_us, self._free_us, self.scheduler.now_us)
        if when_us < self._next_turn_us and not self.is_dead and not self.is_paused:
            self._next_turn_us = when_us
            if when_us not in self._wake_ups:
                self._wake_ups.add(when_us)
                self.scheduler.at(when_us, self.random, self._turn_at, when_us)

    def _turn_at(self, when_us: int) -> None:
        self._wake_ups.discard(when_us)
        if when_us != self._next_turn_us or self.is_dead:
            return  # another turn came before this one
        self._next_turn_us = _NEVER
        if self.is_paused:
            return
        self._is_in_turn = True
        try:
            self._turn()
        except Crash:
            if self.on_crash is None:
                raise
            self.on_crash()
        finally:
            self._is_in_turn = False
        if self._when_stopped is not None and not self.is_dead:
            return self._when_stopped()
        if not self.is_dead:
            self._free_us = self.scheduler.now_us + 1 + int(self.random.random() * _TURN_US_MAX)
            self._arm()

    def _turn(self) -> None:
        self.turns += 1
        ready = bool(self._maybe_ready or self._from_threads) and self._call_ready()
        if self._heap and self._heap[0][0] <= self.scheduler.now_us:
            self._call_due_timers()
        for _ in range(len(self._soon)):
            callback, args = self._soon.popleft()
            callback(*args)
        if self._when_idle:
            self._call_if_idle(ready)

    def _call_ready(self) -> bool:
        """Calls everybody whose transport is ready, once; returns whether there was anybody."""
        ready = self._ready()
        if len(ready) > 1:
            self.random.shuffle(ready)
        for watched, events in ready:
            watched.on_ready(events)
        from_threads = len(self._from_threads)
        for _ in range(from_threads):
            callback, args = self._from_threads.popleft()
            callback(*args)
        return bool(ready or from_threads)

    def _ready(self) -> list[tuple[Watched, int]]:
        """Returns those who are ready, and forgets the others until they may be so again."""
        ready: list[tuple[Watched, int]] = []
        for watched in list(self._maybe_ready):
            if events := watched.ready_events():
                ready.append((watched, events))
            else:
                del self._maybe_ready[watched]
        return ready

    def _call_due_timers(self) -> None:
        heap, now_us = self._heap, self.scheduler.now_us
        while heap and heap[0][0] <= now_us:
            timer = heappop(heap)[2]
            if timer.loop is not None:
                timer.loop = None
                self.timers -= 1
                timer.callback(*timer.args)

    def _call_if_idle(self, is_busy: bool) -> None:
        if is_busy and self._busy_turns < _BUSY_TURNS_MAX:
            self._busy_turns += 1
            return
        self._busy_turns = 0
        waiting, self._when_idle = self._when_idle, []
        for callback, args in waiting:
            callback(*args)

    def _arm(self) -> None:
        """A real loop sleeps until something is ready: without this every turn would be followed by an empty one."""
        if self._soon or self._when_idle or self._from_threads or (self._maybe_ready and self._ready()):
            return self._wake(self.scheduler.now_us)
        heap = self._heap
        while heap and heap[0][2].loop is None:
            heappop(heap)
        if heap:
            self._wake(heap[0][0])
