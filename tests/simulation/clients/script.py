"""What a simulated client does, written down in the order in which it does it.

A script is a generator that yields promises: it goes on with the value of each, or with its error raised.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from barnabas.base.promise import Promise

T = TypeVar("T")
Script = Generator[Promise[Any], Any, T]


def run_script(script: Script[None], on_end: Callable[[], None] = lambda: None) -> None:
    """Runs it to its end, as far as promises are kept. An error that the script lets escape is raised where it is."""

    def go_on(promise: Promise[Any]) -> None:
        while True:
            try:
                waits_for = script.send(promise.value) if promise.error is None else script.throw(promise.error)
            except StopIteration:
                return on_end()
            if not waits_for.done:
                return waits_for.when_done(go_on)
            promise = waits_for

    first: Promise[Any] = Promise()
    first.resolve(None)
    go_on(first)
