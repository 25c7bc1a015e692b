"""Requests to begin a transaction while the markers of the one before are on their way.

By Kafka's rules the answer is CONCURRENT_TRANSACTIONS. A client then waits for 20 ms before it asks again, and markers
between brokers take a tenth of that. So such a request is held back until the transaction has ended, and answered
CONCURRENT_TRANSACTIONS only if that takes too long. Those of one transactional id go on in the order of their arrival.
"""

from collections.abc import Callable, Iterable

from barnabas.base.environment import Clock, Timer
from barnabas.base.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError, NotCoordinator

Attempt = Callable[[], Promise[None]]


class _Held:
    __slots__ = ("answer", "attempt", "timer")

    def __init__(self, attempt: Attempt, on_abandoned: Callable[[], None]) -> None:
        self.attempt = attempt
        self.answer: Promise[None] = Promise(on_abandoned)
        self.timer: Timer | None = None

    def go_on(self) -> None:
        self.attempt().when_done(self._settle)

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
        self._is_closed = False

    def run(self, transactional_id: str, attempt: Attempt) -> Promise[None]:
        """Returns what `attempt` does, now or, if the last transaction of this id is still ending, after it. A client
        that goes away meanwhile begins nothing: it would hang until its timeout."""
        first = attempt()
        if self._is_closed or not _is_early(first):
            return first
        held = _Held(attempt, lambda: self._remove(transactional_id, held))
        self._held.setdefault(transactional_id, []).append(held)
        held.timer = self._clock.call_later(self._wait_max_ms(), self._wait_no_longer, transactional_id, held)
        return held.answer

    def go_on(self, transactional_id: str) -> None:
        """Takes up what has waited: the transaction has ended."""
        while waiting := self._held.get(transactional_id):
            held = waiting[0]
            self._remove(transactional_id, held)  # only this one: should it fail, the others have their timers
            held.go_on()

    def refuse(self, transactional_ids: Iterable[str]) -> None:
        """Fails what waits for these: another coordinator ends their transactions."""
        for transactional_id in transactional_ids:
            for held in self._taken(transactional_id):
                held.answer.fail(NotCoordinator(f"{transactional_id} has another coordinator now"))

    def close(self) -> None:
        """Fails whatever waits, and holds back nothing more."""
        self._is_closed = True
        for transactional_id in list(self._held):
            for held in self._taken(transactional_id):
                held.answer.fail(NotCoordinator("this broker stops"))

    def _wait_no_longer(self, transactional_id: str, held: _Held) -> None:
        self._remove(transactional_id, held)
        held.go_on()

    def _taken(self, transactional_id: str) -> list[_Held]:
        """Returns all that wait for this id, and lets them wait no more."""
        taken = list(self._held.get(transactional_id, ()))
        for held in taken:
            self._remove(transactional_id, held)
        return taken

    def _remove(self, transactional_id: str, held: _Held) -> None:
        """Lets one wait no more, if it still does."""
        waiting = self._held.get(transactional_id, [])
        if held not in waiting:
            return
        waiting.remove(held)
        if not waiting:
            del self._held[transactional_id]
        assert held.timer is not None
        held.timer.cancel()


def _is_early(attempted: Promise[None]) -> bool:
    error = attempted.error
    return isinstance(error, KafkaError) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS
