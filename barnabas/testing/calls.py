"""How a test's thread asks something of the thread on which brokers run, and waits for the answer."""

import threading
from collections.abc import Callable
from typing import TypeVar

from barnabas.base.promise import Promise, failed

T = TypeVar("T")
TIMEOUT_S = 30


def call_and_wait(
    post: Callable[[Callable[[], None]], None],
    ask: Callable[[], Promise[T]],
    what: str,
    timeout_s: float = TIMEOUT_S,
) -> T:
    """Calls `ask` on the other thread, by way of `post`, and waits for its promise. Returns the value, or raises the
    error; after the timeout, a TimeoutError that says `what` did not happen."""
    answered = threading.Event()
    asked: list[Promise[T]] = []

    def call() -> None:
        try:
            promise = ask()
        except Exception as error:
            promise = failed(error)
        asked.append(promise)
        promise.when_done(lambda _: answered.set())

    post(call)
    if not answered.wait(timeout_s):
        post(lambda: asked[0].abandon())
        raise TimeoutError(f"{what} within {timeout_s:g} s")
    (promise,) = asked
    if promise.error is not None:
        raise promise.error
    return promise.value
