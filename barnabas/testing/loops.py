"""Several loops on one thread: each node of a cluster has its own, as a process would.

Threads of their own would fight for the GIL, in slices of 5 ms. And a loop that is not turned is a process that the
system has stopped: its connections stay, its timers fall due, and nothing moves.
"""

from collections.abc import Callable

from barnabas.base.network import READ
from barnabas.base.promise import Promise
from barnabas.broker.system.loop import Loop, Time


class NodeLoop(Loop):
    """The loop of one node. It never waits: `Loops` turns it when there is something to do."""

    def _wait(self) -> list[tuple[Callable[[int], None], int]]:
        return self._poller.poll(0)

    def fileno(self) -> int:
        """Returns a descriptor that is ready when a socket of this loop is, or a thread has called."""
        return self._poller.fileno()

    @property
    def wait_s(self) -> float | None:
        """Returns how long nothing is due; None if that is for ever."""
        return self._timeout()


class Loops(Loop):
    """The thread's own loop, which turns those of the nodes."""

    def __init__(self, on_error: Callable[[BaseException], None], *, system_time: Time) -> None:
        super().__init__(on_error, system_time=system_time)
        self._nodes: list[NodeLoop] = []
        self._awaited: list[tuple[Callable[[], bool], Promise[None]]] = []
        self._had_events = False

    def add(self, node: NodeLoop) -> None:
        self.register(node.fileno(), READ, lambda _events: self._turn(node))
        self._nodes.append(node)

    def remove(self, node: NodeLoop) -> None:
        """Turns this loop no more, until it is added again."""
        if node in self._nodes:
            self._nodes.remove(node)
            self.unregister(node.fileno())

    def until(self, is_so: Callable[[], bool]) -> Promise[None]:
        """Returns a promise that is kept after the turn in which `is_so` has become true. Cancel it to stop looking."""
        promise: Promise[None] = Promise(lambda: self._awaited.remove(awaited))
        awaited = (is_so, promise)
        self._awaited.append(awaited)
        self.call_soon(self._look)
        return promise

    @property
    def is_quiet(self) -> bool:
        """Returns whether the last turn brought nothing from any socket or thread, and nothing is due or under way."""
        return not self._had_events and not self.has_jobs and all(node.wait_s != 0 for node in self._nodes)

    @property
    def has_jobs(self) -> bool:
        """Returns whether a node waits for a job of another thread."""
        return any(node.jobs for node in self._nodes)

    def run_once(self) -> None:
        super().run_once()
        for node in [node for node in self._nodes if node.wait_s == 0]:
            self._turn(node)
        self._look()

    def _turn(self, node: NodeLoop) -> None:
        if node in self._nodes:  # it may have been removed earlier in this turn
            node.run_once()

    def _look(self) -> None:
        for awaited in tuple(self._awaited):
            is_so, promise = awaited
            try:
                if not is_so():
                    continue
            except Exception as error:
                self._awaited.remove(awaited)
                promise.fail(error)
                continue
            self._awaited.remove(awaited)
            promise.resolve(None)

    def _wait(self) -> list[tuple[Callable[[int], None], int]]:
        ready = super()._wait()
        self._had_events = bool(ready)
        return ready

    def _timeout(self) -> float | None:
        waits_s = [super()._timeout(), *(node.wait_s for node in self._nodes)]
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)
