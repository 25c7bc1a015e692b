"""Decides what a supervisor does about its brokers. It starts nothing itself: events in, effects out, time handed in.

Rules:
- A broker that ends is started again, however it ended: at once the first time, then after 0.5, 1, 2 … 30 s. One that
  has run for a minute counts as new.
- A broker that fails before it was ever ready, and says why, will fail again: all stop, and that is the last word.
- A stop has two phases. First the brokers leave one after the other, while every voter is there to decide about their
  partitions; the last one has nobody to hand over to, and is told so while there is somebody to ask. Then all end.
  What has not ended after eight seconds is killed, and at a second signal everything is at once.
- A rolling restart stops one broker after the other, each when all are ready and in sync: otherwise partitions would
  have too few replicas in sync to take records. It is no failure, and does not count; a broker that has not stopped
  after eight seconds is killed.
"""

from collections.abc import Iterable
from signal import SIGKILL, SIGTERM

from barnabas.protocol.named_tuple import NamedTuple

FIRST_DELAY_MS = 500
LONGEST_DELAY_MS = 30_000
STEADY_MS = 60_000
LEAVE_MS = 2_500
"""For all brokers together; an orderly end of a broker takes up to five seconds more."""
STOP_MS = 8_000
"""Docker kills after ten seconds."""

FAILED = 1
"""The exit code of a broker that has said why it cannot start."""


class Start(NamedTuple):
    node_id: int


class Leave(NamedTuple):
    """The broker is to hand over what it leads, and go on voting."""

    node_id: int


class Signal(NamedTuple):
    node_id: int
    number: int


class AllReady(NamedTuple):
    """Every broker is ready, for the first time."""


class Tell(NamedTuple):
    """A line of the log."""

    level: str
    text: str
    node_id: int


class End(NamedTuple):
    """Everything has stopped."""

    status: int
    line: str = ""


Effect = Start | Leave | Signal | AllReady | Tell | End


class _Child:
    """A broker: the process that is there, if one is, and the memory of those before it."""

    __slots__ = ("due_ms", "failures", "is_alive", "is_in_sync", "is_ready", "started_ms", "was_ever_ready", "why")

    def __init__(self) -> None:
        self.is_alive = False
        self.is_ready = False
        self.is_in_sync = False
        """Whether it has caught up, since it was ready, with all that others lead."""
        self.was_ever_ready = False
        self.started_ms = 0
        self.failures = 0
        self.due_ms: int | None = None
        """When it is started again, if it waits for that."""
        self.why = ""
        """What it said about its failure."""

    def next_delay_ms(self, now_ms: int) -> int:
        if now_ms - self.started_ms >= STEADY_MS:
            self.failures = 0
        delay_ms = min(FIRST_DELAY_MS << (self.failures - 1), LONGEST_DELAY_MS) if self.failures else 0
        self.failures = min(self.failures + 1, 16)
        return delay_ms


class Supervision:
    def __init__(self, node_ids: Iterable[int]) -> None:
        self._children = {node_id: _Child() for node_id in node_ids}
        self._was_all_ready = False
        self._is_stopping = False
        self._leaving: list[int] = []
        """Brokers that have not left so far; the first of them is leaving now."""
        self._leave_until_ms: int | None = None
        self._kill_at_ms: int | None = None
        self._status = 0
        self._last_word = ""
        self._to_roll: list[int] = []
        self._rolled: int | None = None
        """The broker that a rolling restart has stopped, until it is ready again."""
        self._rolled_is_ending = False
        """Whether it was asked to stop and has not ended so far. If it ends once more, it does so by itself."""
        self._roll_until_ms: int | None = None
        """When that broker is killed, if it has not ended by then; None when it has ended or was killed."""

    @property
    def deadline_ms(self) -> int | None:
        """Returns when `on_time` has something to do."""
        waiting = [child.due_ms for child in self._children.values()]
        times = [*waiting, self._leave_until_ms, self._kill_at_ms, self._roll_until_ms]
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    @property
    def _all_ready(self) -> bool:
        return all(child.is_ready for child in self._children.values())

    @property
    def _all_in_sync(self) -> bool:
        return all(child.is_ready and child.is_in_sync for child in self._children.values())

    # ---- events

    def start(self, now_ms: int) -> list[Effect]:
        return [self._started(node_id, now_ms) for node_id in self._children]

    def on_time(self, now_ms: int) -> list[Effect]:
        """Does what is due."""
        effects: list[Effect] = []
        for node_id, child in self._children.items():
            if child.due_ms is not None and child.due_ms <= now_ms:
                effects.append(self._started(node_id, now_ms))
        if _is_due(self._roll_until_ms, now_ms) and self._rolled is not None:
            self._roll_until_ms = None
            effects.append(Signal(self._rolled, SIGKILL))
        if _is_due(self._leave_until_ms, now_ms):
            effects += self._end_all()
        if _is_due(self._kill_at_ms, now_ms):
            effects += self._kill_all(1, "killed what had not stopped after 8 s; the next start recovers its logs")
        return effects

    def on_ready(self, node_id: int, now_ms: int) -> list[Effect]:
        child = self._children[node_id]
        child.is_ready = child.was_ever_ready = True
        if self._is_stopping or not self._all_ready:
            return []
        effects: list[Effect] = []
        if not self._was_all_ready:
            self._was_all_ready = True
            effects.append(AllReady())
        return effects + self._roll_on(now_ms)

    def on_in_sync(self, node_id: int, now_ms: int) -> list[Effect]:
        self._children[node_id].is_in_sync = True
        return [] if self._is_stopping else self._roll_on(now_ms)

    def on_failed(self, node_id: int, why: str) -> None:
        """Notes why a broker is about to end with the exit code `FAILED`."""
        self._children[node_id].why = why

    def on_left(self, node_id: int) -> list[Effect]:
        if not self._leaving or self._leaving[0] != node_id:
            return []
        del self._leaving[0]
        return self._next_leaves()

    def on_exit(self, node_id: int, code: int, now_ms: int) -> list[Effect]:
        """Takes note of the end of a broker; a negative code is the signal that ended it."""
        child = self._children[node_id]
        child.is_alive = child.is_ready = child.is_in_sync = False
        if self._is_stopping:
            return self._on_exit_while_stopping(node_id, code)
        if code == FAILED and child.why and not child.was_ever_ready:
            self._status, self._last_word = 1, child.why
            return self._stop(now_ms, leaving=[])
        if node_id == self._rolled and self._rolled_is_ending:
            self._rolled_is_ending = False
            self._roll_until_ms = None
            return [self._started(node_id, now_ms)]
        delay_ms = child.next_delay_ms(now_ms)
        child.due_ms = now_ms + delay_ms
        when = "now" if not delay_ms else f"in {delay_ms / 1000:g} s"
        told = Tell("warning", f"{child.why or _ending(code)}; it is started again {when}", node_id)
        return [told] if delay_ms else [told, self._started(node_id, now_ms)]

    def on_stop(self, number: int, now_ms: int) -> list[Effect]:
        """Takes a signal that means: stop."""
        if self._is_stopping:
            return self._kill_all(128 + number, "")
        ready = [node_id for node_id, child in self._children.items() if child.is_ready]
        return self._stop(now_ms, leaving=ready[::-1])

    def on_hang_up(self, now_ms: int) -> list[Effect]:
        """Begins a rolling restart; one that is under way begins anew after its present broker."""
        if self._is_stopping:
            return []
        self._to_roll = list(self._children)
        return self._roll_on(now_ms)

    # ---- starting

    def _started(self, node_id: int, now_ms: int) -> Start:
        child = self._children[node_id]
        child.is_alive = True
        child.started_ms = now_ms
        child.due_ms = None
        child.why = ""
        return Start(node_id)

    # ---- stopping

    def _stop(self, now_ms: int, *, leaving: list[int]) -> list[Effect]:
        self._is_stopping = True
        self._leaving = leaving
        self._leave_until_ms = now_ms + LEAVE_MS
        self._kill_at_ms = now_ms + STOP_MS
        self._roll_until_ms = None
        for child in self._children.values():
            child.due_ms = None
        return self._next_leaves()

    def _next_leaves(self) -> list[Effect]:
        return [Leave(self._leaving[0])] if self._leaving else self._end_all()

    def _end_all(self) -> list[Effect]:
        self._leaving = []
        self._leave_until_ms = None
        return [Signal(node_id, SIGTERM) for node_id in self._alive()] or [self._end()]

    def _kill_all(self, status: int, last_word: str) -> list[Effect]:
        self._leave_until_ms = self._kill_at_ms = None
        self._leaving = []
        self._status, self._last_word = self._status or status, self._last_word or last_word
        return [Signal(node_id, SIGKILL) for node_id in self._alive()] or [self._end()]

    def _on_exit_while_stopping(self, node_id: int, code: int) -> list[Effect]:
        child = self._children[node_id]
        if code == FAILED and not self._status:
            self._status, self._last_word = 1, child.why or f"node {node_id} could not stop cleanly"
        if not self._alive():
            return [self._end()]
        if node_id not in self._leaving:
            return []
        was_leaving = self._leaving[0] == node_id
        self._leaving.remove(node_id)
        return self._next_leaves() if was_leaving else []

    def _alive(self) -> list[int]:
        return [node_id for node_id, child in self._children.items() if child.is_alive]

    def _end(self) -> End:
        return End(self._status, self._last_word)

    # ---- rolling

    def _roll_on(self, now_ms: int) -> list[Effect]:
        if not self._all_in_sync:
            return []
        effects: list[Effect] = []
        if self._rolled is not None:
            effects.append(Tell("info", "was restarted", self._rolled))
            self._rolled = None
        if self._to_roll:
            self._rolled = self._to_roll.pop(0)
            self._children[self._rolled].is_ready = self._children[self._rolled].is_in_sync = False
            self._rolled_is_ending = True
            self._roll_until_ms = now_ms + STOP_MS
            effects.append(Signal(self._rolled, SIGTERM))
        return effects


def _is_due(time_ms: int | None, now_ms: int) -> bool:
    return time_ms is not None and time_ms <= now_ms


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    from signal import Signals

    return f"was ended by {Signals(-code).name}"
