"""A value that will be there later: the outcome of a job, a flush, a request. There is no other way to wait for one."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from barnabas.protocol.errors import KafkaError

T = TypeVar("T")
U = TypeVar("U")


class Promise(Generic[T]):
    """A value that comes later. It is resolved or failed once, on the loop's thread, and then calls its one callback.

    `abandon` says that nobody waits any more: a client that went away must not leave a ghost in the purgatory.
    """

    __slots__ = ("_callback", "_on_abandoned", "done", "error", "value")

    value: T

    def __init__(self, on_abandoned: Callable[[], None] | None = None) -> None:
        self.done = False
        self.error: Exception | None = None
        """Set if there will be no value. An error that reaches a client is a KafkaError, or a bug of ours."""
        self._callback: Callable[[Promise[T]], None] | None = None
        self._on_abandoned = on_abandoned

    def resolve(self, value: T) -> None:
        self.value = value
        self._settle()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._settle()

    def _settle(self) -> None:
        assert not self.done, "a promise is kept once"
        self.done = True
        if self._callback is not None:
            self._callback(self)

    def when_done(self, callback: "Callable[[Promise[T]], None]") -> None:
        assert self._callback is None, "one waits for a promise"
        if self.done:
            callback(self)
        else:
            self._callback = callback

    def map(self, function: Callable[[T], U]) -> "Promise[U]":
        """Returns a promise of what `function` returns for the value."""
        mapped: Promise[U] = Promise(self.abandon)

        def settle(kept: Promise[T]) -> None:
            if kept.error is not None:
                return mapped.fail(kept.error)
            try:
                value = function(kept.value)
            except Exception as error:  # it belongs to `function`, not to the caller of `resolve`
                return mapped.fail(error)
            mapped.resolve(value)

        self.when_done(settle)
        return mapped

    def then(self, function: "Callable[[T], Promise[U]]") -> "Promise[U]":
        """Returns a promise of what the promise that `function` returns for the value will have."""
        chained: Promise[U] = Promise(self.abandon)

        def settle(last: Promise[U]) -> None:
            if last.error is not None:
                chained.fail(last.error)
            else:
                chained.resolve(last.value)

        def go_on(kept: Promise[T]) -> None:
            if kept.error is not None:
                return chained.fail(kept.error)
            try:
                next_one = function(kept.value)
            except Exception as error:
                return chained.fail(error)
            next_one.when_done(settle)

        self.when_done(go_on)
        return chained

    def or_else(self, function: Callable[[KafkaError], T]) -> "Promise[T]":
        """Returns a promise of the value, or of what `function` returns for a KafkaError, which a client may see."""
        kept_anyhow: Promise[T] = Promise(self.abandon)

        def settle(kept: Promise[T]) -> None:
            if kept.error is None:
                return kept_anyhow.resolve(kept.value)
            if not isinstance(kept.error, KafkaError):
                return kept_anyhow.fail(kept.error)
            try:
                value = function(kept.error)
            except Exception as error:
                return kept_anyhow.fail(error)
            kept_anyhow.resolve(value)

        self.when_done(settle)
        return kept_anyhow

    def abandon(self) -> None:
        if not self.done and self._on_abandoned is not None:
            self._on_abandoned()


def resolved(value: T) -> Promise[T]:
    """Returns a promise that has its value already."""
    promise: Promise[T] = Promise()
    promise.resolve(value)
    return promise


def failed(error: Exception) -> Promise[T]:
    """Returns a promise that never gets a value."""
    promise: Promise[T] = Promise()
    promise.fail(error)
    return promise


def all_of(promises: Sequence[Promise[T]]) -> Promise[list[T]]:
    """Returns a promise of every value, in order; it fails with the first error once all are settled."""

    def abandon() -> None:
        for promise in promises:
            promise.abandon()

    together: Promise[list[T]] = Promise(abandon)
    missing = len(promises)

    def settle(_one: Promise[T]) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            finish()

    def finish() -> None:
        error = next((promise.error for promise in promises if promise.error is not None), None)
        if error is not None:
            together.fail(error)
        else:
            together.resolve([promise.value for promise in promises])

    for promise in promises:
        promise.when_done(settle)
    if not promises:
        finish()
    return together
