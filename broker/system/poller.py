"""Which descriptors are ready: epoll where there is one, else what the standard library's selectors find.

Those selectors would do everywhere. But they wrap each event of epoll in an object and look up another: measured, half
of a microsecond of the twelve that a small request takes.
"""

import select
import selectors
from collections.abc import Callable

from barnabas.base.network import READ, WRITE

assert (selectors.EVENT_READ, selectors.EVENT_WRITE) == (READ, WRITE), "the network's events are those of selectors"

Callback = Callable[[int], None]


class SelectorPoller:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, events: int, callback: Callback) -> None:
        self._selector.register(fd, events, callback)

    def modify(self, fd: int, events: int, callback: Callback) -> None:
        self._selector.modify(fd, events, callback)

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout: float | None) -> list[tuple[Callback, int]]:
        return [(key.data, events) for key, events in self._selector.select(timeout)]

    def fileno(self) -> int:
        """Returns a descriptor that is ready when one of those in here is."""
        return self._selector.fileno()

    def close(self) -> None:
        self._selector.close()


class EpollPoller:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callback] = {}

    def register(self, fd: int, events: int, callback: Callback) -> None:
        self._epoll.register(fd, _EPOLL_OF[events])
        self._callbacks[fd] = callback

    def modify(self, fd: int, events: int, callback: Callback) -> None:
        self._epoll.modify(fd, _EPOLL_OF[events])
        self._callbacks[fd] = callback

    def unregister(self, fd: int) -> None:
        del self._callbacks[fd]
        self._epoll.unregister(fd)

    def poll(self, timeout: float | None) -> list[tuple[Callback, int]]:
        callbacks = self._callbacks
        return [(callbacks[fd], _EVENTS_OF.get(events, READ | WRITE)) for fd, events in self._epoll.poll(timeout)]

    def fileno(self) -> int:
        """Returns a descriptor that is ready when one of those in here is."""
        return self._epoll.fileno()

    def close(self) -> None:
        self._epoll.close()


if hasattr(select, "epoll"):
    _EPOLL_OF = {READ: select.EPOLLIN, WRITE: select.EPOLLOUT, READ | WRITE: select.EPOLLIN | select.EPOLLOUT}
    _EVENTS_OF = {events: name for name, events in _EPOLL_OF.items()}
    """A connection that broke is ready for everything: the next read or write says why."""

Poller = EpollPoller if hasattr(select, "epoll") else SelectorPoller
