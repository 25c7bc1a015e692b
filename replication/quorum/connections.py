"""The requests that are under way, and the nodes that it is too early to ask again.

Rules:
- At most one request of a kind is under way to a node. A change of state forgets all: their answers come too late.
- After a failure the node is left alone, at first briefly, then twice as long each time. A connection that breaks after
  an answer is tried again at once: whoever waits must know whether the other side has died.
"""

from typing import Any

from barnabas.replication.quorum.settings import QuorumConfig


class Connections:
    __slots__ = ("_config", "_failures", "_in_flight", "_not_before_ms", "_silent")

    def __init__(self, config: QuorumConfig) -> None:
        self._config = config
        self._in_flight: dict[tuple[int, type], Any] = {}
        self._not_before_ms: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._silent: set[int] = set()
        """The nodes whose last request failed."""

    def is_silent(self, node_id: int) -> bool:
        return node_id in self._silent

    def is_ready(self, node_id: int, kind: type, *, now_ms: int) -> bool:
        return (node_id, kind) not in self._in_flight and self._not_before_ms.get(node_id, 0) <= now_ms

    def is_waiting_for(self, kind: type) -> bool:
        return any(waiting is kind for _, waiting in self._in_flight)

    def sent(self, node_id: int, request: Any) -> None:
        self._in_flight[node_id, type(request)] = request

    def answered(self, node_id: int, request: Any) -> bool:
        """Notes an answer; returns False if nobody waits for it any more."""
        self._failures.pop(node_id, None)
        self._silent.discard(node_id)
        return self._ended(node_id, request)

    def failed(self, node_id: int, request: Any, *, now_ms: int) -> bool:
        is_first = node_id not in self._silent
        self._silent.add(node_id)
        if not self._ended(node_id, request):
            return False
        if not is_first:
            self.leave_alone(node_id, now_ms=now_ms)
        return True

    def leave_alone(self, node_id: int, *, now_ms: int) -> None:
        failures = self._failures.get(node_id, 0)
        self._failures[node_id] = failures + 1
        wait_ms = min(self._config.retry_backoff_ms << min(failures, 10), self._config.retry_backoff_max_ms)
        self._not_before_ms[node_id] = now_ms + wait_ms

    def rest(self, node_id: int, *, now_ms: int) -> None:
        """Leaves a node alone for as long as ever: it has answered, and would say the same again."""
        self._not_before_ms[node_id] = now_ms + self._config.retry_backoff_max_ms

    def _ended(self, node_id: int, request: Any) -> bool:
        if self._in_flight.get((node_id, type(request))) is not request:
            return False
        del self._in_flight[node_id, type(request)]
        return True

    def forget_requests(self) -> None:
        self._in_flight.clear()

    def next_ready_ms(self, now_ms: int) -> int | None:
        """Returns when the next node may be asked again; None if all may be."""
        return min((at_ms for at_ms in self._not_before_ms.values() if at_ms > now_ms), default=None)
