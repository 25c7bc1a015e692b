"""Both pollers tell the same: the one of Linux, and the one that stands in elsewhere."""

import os
import socket
from collections.abc import Iterator

import pytest

from barnabas.base.network import READ, WRITE
from barnabas.broker.system.poller import EpollPoller, Poller, SelectorPoller


@pytest.fixture(params=sorted({Poller, SelectorPoller}, key=str))
def poller(request: pytest.FixtureRequest) -> Iterator[EpollPoller | SelectorPoller]:
    made: EpollPoller | SelectorPoller = request.param()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def nothing(_events: int) -> None: ...


def other(_events: int) -> None: ...


def test_who_is_ready_for_what(poller: EpollPoller | SelectorPoller, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ, nothing)
    assert poller.poll(0) == []
    theirs.send(b"x")
    assert poller.poll(1) == [(nothing, READ)]
    poller.modify(ours.fileno(), READ | WRITE, other)
    assert poller.poll(1) == [(other, READ | WRITE)]
    ours.recv(10)
    assert poller.poll(1) == [(other, WRITE)]
    poller.modify(ours.fileno(), READ, nothing)
    assert poller.poll(0.001) == []
    poller.unregister(ours.fileno())
    theirs.send(b"x")
    assert poller.poll(0) == []


def test_one_that_broke_is_ready_at_least_for_what_was_asked(
    poller: EpollPoller | SelectorPoller, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Whichever it was: who reads or writes then is told what happened."""
    ours, theirs = pair
    poller.register(ours.fileno(), WRITE, nothing)
    theirs.close()
    ((callback, events),) = poller.poll(1)
    assert callback is nothing
    assert events & WRITE
    poller.modify(ours.fileno(), READ, other)
    ((callback, events),) = poller.poll(1)
    assert callback is other
    assert events & READ


def test_a_pipe_without_readers_is_an_error_that_wakes_the_writer(poller: EpollPoller | SelectorPoller) -> None:
    read, write = os.pipe()
    poller.register(write, WRITE, nothing)
    os.close(read)
    ((_, events),) = poller.poll(1)
    assert events & WRITE
    poller.unregister(write)
    os.close(write)
