"""Many small pieces of work that one request asks for, a few at each turn of the loop.

A request may name a hundred thousand groups. Each takes little time, but all of them at once would keep every other
client waiting for seconds.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise, all_of

T = TypeVar("T")
R = TypeVar("R")

PIECES_PER_TURN = 200


def in_turns(
    clock: Clock, pieces: Sequence[T], handle: Callable[[T], Promise[R]], *, at_once: int = PIECES_PER_TURN
) -> Promise[list[R]]:
    """Returns a promise of the result of `handle` for each piece, in order. Few are handled before this returns."""
    if len(pieces) <= at_once:
        return all_of([handle(piece) for piece in pieces])
    whole: Promise[list[R]] = Promise()
    promises: list[Promise[R]] = []

    def go_on() -> None:
        start = len(promises)
        try:
            promises.extend(handle(piece) for piece in pieces[start : start + at_once])
        except Exception as error:  # the promise must fail, wherever this is called from
            return whole.fail(error)
        if len(promises) < len(pieces):
            clock.call_later(0, go_on)  # not soon: the sockets come first
        else:
            all_of(promises).when_done(settle)

    def settle(kept: Promise[list[R]]) -> None:
        if kept.error is not None:
            whole.fail(kept.error)
        else:
            whole.resolve(kept.value)

    go_on()
    return whole
