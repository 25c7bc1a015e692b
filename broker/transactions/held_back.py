"""Requests to begin a transaction while the markers of the one before are on their way.

By Kafka's rules the answer is CONCURRENT_TRANSACTIONS. A client then waits for 20 ms before it asks again, and markers
between brokers take a tenth of that. So such a request is held back until the transaction has ended, and answered
CONCURRENT_TRANSACTIONS only if that takes too long. Those of one transactional id go on in the order of their arrival.
"""

from collections.abc import Callable

from barnabas.base.environment import Clock, Timer
from barnabas.base.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError, NotCoordinator

Attempt = Callable[[], Promise[None]]


class _Held:
    __slots__ = ("answer", "attempt", "timer")

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.answer: Promise[None] = Promise()
        self.timer: Timer | None = None

    def go_on(self) -> None:
        self.stop_waiting()
        self.attempt().when_done(self._settle)

    def stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _settle(self, kept: Promise[None]) -> None:
        if kept.error is None:
            self.answer.resolve(None)
        else:
            self.answer.fail(kept.error)


class HeldBack:
    def __init__(self, clock: Clock, wait_max_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._wait_max_ms = wait_max_ms
        self._held: dict[str, list[_Held]] = {}

    def run(self, transactional_id: str, attempt: Attempt) -> Promise[None]:
        """Returns what `attempt` does, now or, if the last transaction of this id is still ending, after it."""
        first = attempt()
        if not _is_early(first):
            return first
        held = _Held(attempt)
        self._held.setdefault(transactional_id, []).append(held)
        held.timer = self._clock.call_later(self._wait_max_ms(), self._wait_no_longer, transactional_id, held)
        return held.answer

    def go_on(self, transactional_id: str) -> None:
        """Takes up what has waited: the transaction has ended."""
        for held in self._held.pop(transactional_id, ()):
            held.go_on()

    def close(self) -> None:
        """Fails whatever waits."""
        while self._held:
            for held in self._held.popitem()[1]:
                held.stop_waiting()
                held.answer.fail(NotCoordinator("this broker stops"))

    def _wait_no_longer(self, transactional_id: str, held: _Held) -> None:
        waiting = self._held[transactional_id]
        waiting.remove(held)
        if not waiting:
            del self._held[transactional_id]
        held.go_on()


def _is_early(attempted: Promise[None]) -> bool:
    error = attempted.error
    return isinstance(error, KafkaError) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS
