"""Work that one request asks for in masses does not keep the others waiting."""

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.in_turns import PIECES_PER_TURN, in_turns
from barnabas.protocol.errors import InvalidGroupId
from tests.fakes import FakeClock

MANY = PIECES_PER_TURN * 3 + 1


def kept(piece: int) -> Promise[int]:
    promise: Promise[int] = Promise()
    promise.resolve(-piece)
    return promise


@pytest.mark.parametrize("count", [0, 1, PIECES_PER_TURN])
def test_few_pieces_are_done_at_once(count: int) -> None:
    assert in_turns(FakeClock(), range(count), kept).value == [-piece for piece in range(count)]


def test_many_pieces_are_done_in_order_some_at_each_turn() -> None:
    clock, handled = FakeClock(), []

    def handle(piece: int) -> Promise[int]:
        handled.append(piece)
        return kept(piece)

    whole = in_turns(clock, range(MANY), handle)
    clock.turn()
    assert len(handled) == PIECES_PER_TURN, "the rest waits for the sockets"
    clock.advance(0)
    assert handled == list(range(MANY))
    assert whole.value == [-piece for piece in range(MANY)]


def test_it_waits_for_those_that_wait() -> None:
    clock, waiting = FakeClock(), Promise[int]()
    whole = in_turns(clock, range(MANY), lambda piece: waiting if piece == 7 else kept(piece))
    clock.advance(0)
    assert not whole.done
    waiting.resolve(42)
    assert whole.value[7] == 42


def test_one_that_fails_fails_them_all() -> None:
    def handle(piece: int) -> Promise[int]:
        promise: Promise[int] = Promise()
        if piece == MANY - 1:
            promise.fail(InvalidGroupId("the last one"))
        else:
            promise.resolve(piece)
        return promise

    clock = FakeClock()
    whole = in_turns(clock, range(MANY), handle)
    clock.advance(0)
    assert isinstance(whole.error, InvalidGroupId)


def test_a_bug_in_a_later_turn_is_told_to_the_one_who_waits() -> None:
    def handle(piece: int) -> Promise[int]:
        assert piece < PIECES_PER_TURN, "a bug"
        return kept(piece)

    clock = FakeClock()
    whole = in_turns(clock, range(MANY), handle)
    clock.advance(0)
    assert isinstance(whole.error, AssertionError)
