"""One client connection: requests in from a transport, replies out in the order of their requests.

- All requests that one turn of the loop brought are handled before anything is sent, and the replies to one client
  leave in one write. To wake a sleeping client costs as much as to handle a request: replies that leave together find
  it awake.
- A request may be answered later; those after it are handled meanwhile, and answered after it.
- A client that does not read its replies is not read from, until it catches up.
- A view of a received frame is dead when its handler returns. Handlers copy what they keep.

`frame_reader.py` and `reply_queue.py` hold the bytes; this is the shell that moves them.
"""

import errno
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from barnabas.base.environment import Clock
from barnabas.base.network import READ, WRITE, Transport
from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.foreign_protocols import looks_like
from barnabas.broker.network.frame_reader import SMALL_FRAME_BYTES, FrameReader
from barnabas.broker.network.reply_queue import Reply, ReplyQueue
from barnabas.broker.network.session import Session
from barnabas.protocol.errors import KafkaError, ProtocolError


class Dispatch(Protocol):
    """Handles one request frame."""

    def __call__(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply: ...


class State(IntEnum):
    READING = 0
    BEHIND = 1
    """The client has so many replies to read, or to wait for, that its next requests must wait."""
    DRAINING = 2
    """Received requests are answered, and no more are read."""
    CLOSED = 3


class Change(IntEnum):
    FALL_BEHIND = 0
    CATCH_UP = 1
    STOP_READING = 2
    CLOSE = 3


TRANSITIONS = {
    (State.READING, Change.FALL_BEHIND): State.BEHIND,
    (State.BEHIND, Change.CATCH_UP): State.READING,
    (State.READING, Change.STOP_READING): State.DRAINING,
    (State.BEHIND, Change.STOP_READING): State.DRAINING,
    (State.DRAINING, Change.STOP_READING): State.DRAINING,
    (State.READING, Change.CLOSE): State.CLOSED,
    (State.BEHIND, Change.CLOSE): State.CLOSED,
    (State.DRAINING, Change.CLOSE): State.CLOSED,
}
"""The state after each change. A pair that is absent cannot happen."""

_READING, _BEHIND, _CLOSED = State.READING, State.BEHIND, State.CLOSED  # a global is found faster than a member


class Connection:
    __slots__ = (
        "_clock", "_dispatch", "_events", "_is_scheduled", "_now_ms", "_on_close", "_reader", "_receive_into",
        "_replies", "_state", "_transport", "last_active_ms", "requests", "session",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        *,
        listener: str,
        clock: Clock,
        buffers: Buffers,
        dispatch: Dispatch,
        max_frame_bytes: int,
        on_close: Callable[["Connection", str | None], None],
    ) -> None:
        """Starts to read. `on_close` is called with the reason, or None if the client simply went away."""
        self._transport = transport
        self._receive_into = transport.receive_into
        self._clock = clock
        self._now_ms = clock.now_ms
        self._dispatch = dispatch
        self._on_close = on_close
        self._reader = FrameReader(buffers, max_frame_bytes)
        self._replies = ReplyQueue()
        self._state = State.READING
        self._events = READ
        self._is_scheduled = False
        """Whether `_finish_turn` is in the clock's queue."""
        self.session = Session(listener=listener, local=transport.local, peer=transport.peer)
        self.requests = 0
        self.last_active_ms = clock.now_ms()
        transport.watch(READ, self._on_event)

    def _change(self, change: Change) -> None:
        self._state = TRANSITIONS[self._state, change]

    # ---- requests in

    def _on_event(self, events: int) -> None:
        if events & WRITE and self._state is not _CLOSED:
            self._send()
        if events & READ and self._state is _READING:
            self._receive()

    def _receive(self) -> None:
        self.last_active_ms = self._now_ms()
        reader = self._reader
        try:
            count = self._receive_into(reader.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            return self._hang_up()
        reader.fill(count)
        self._handle_frames()
        self._clock.expects_more = count < SMALL_FRAME_BYTES

    def _hang_up(self) -> None:
        self.close()
        self.session.has_hung_up = True
        if self.session.on_hangup is not None:
            self.session.on_hangup()

    def _handle_frames(self) -> None:
        """Handles every whole frame while the client keeps up. Their replies leave at the end of the turn."""
        if not self.requests and (protocol := looks_like(self._reader.first_bytes)):
            return self.close(f"it looks like {protocol}")
        try:
            self._handle_whole()
            self._reader.finish()
        except Exception as error:
            if not self._replies.in_flight:
                return self._break_off(error)
            self._replies.add_error(error)
            self.stop_reading()
        if self._replies.unsent or self._replies.has_settled or self._state is not _READING:
            self._finish_turn_later()

    def _handle_whole(self) -> None:
        reader, replies, dispatch, session = self._reader, self._replies, self._dispatch, self.session
        while self._state is _READING:
            if replies.is_behind():
                self._change(Change.FALL_BEHIND)
                return
            frame = reader.next_frame()
            if frame is None:
                return
            self.requests += 1
            promise = replies.add(dispatch(frame, session))
            if promise is not None:
                promise.when_done(self._on_settled)

    def _on_settled(self, _promise: Promise[Reply]) -> None:
        """Sends the reply later: the promise may have been settled in the middle of another client's request.
        Promises that are settled together are answered together, too."""
        if not self._is_scheduled and self._replies.has_settled:
            self._finish_turn_later()

    def _finish_turn_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._finish_turn)

    # ---- replies out

    def _finish_turn(self) -> None:
        self._is_scheduled = False
        if self._state is _CLOSED:
            return
        if self._replies.in_flight:
            try:
                self._replies.settle()
            except Exception as error:
                return self._break_off(error)
        self._send()

    def _send(self) -> None:
        unsent = self._replies.unsent
        if unsent:
            try:
                if self._replies.send_to(self._transport):
                    self.last_active_ms = self._now_ms()
            except OSError as error:
                return self.close(None if error.errno in _PEER_IS_GONE else f"sending failed: {error}")
        if self._state is _BEHIND and not self._replies.is_behind():
            self._change(Change.CATCH_UP)
            self._handle_frames()
        if unsent or self._events != READ or self._state is not _READING:
            self._watch()

    def _watch(self) -> None:
        """Asks the transport for what this connection can use: room to send, or more requests."""
        if self._state is _CLOSED:
            return
        events = (WRITE if self._replies.unsent else 0) | (READ if self._state is _READING else 0)
        if events != self._events:
            self._events = events
            self._transport.watch(events, self._on_event)

    # ---- the end

    @property
    def is_closed(self) -> bool:
        return self._state is _CLOSED

    @property
    def is_idle(self) -> bool:
        """Returns whether nothing is being answered or sent. A frame that never gets whole does not count as work."""
        return self._replies.is_empty

    @property
    def is_being_answered(self) -> bool:
        """Returns whether a request waits for its answer: then the silence is ours."""
        return bool(self._replies.in_flight)

    @property
    def is_halfway(self) -> bool:
        """Returns whether a frame has begun and is not whole."""
        return self._reader.is_halfway

    def stop_reading(self) -> None:
        """Answers the requests that are here and takes no more."""
        self._change(Change.STOP_READING)
        self._watch()

    def _break_off(self, error: Exception) -> None:
        """Closes the connection because of an error in one request, after sending the replies before it."""
        self._change(Change.STOP_READING)
        self._send()
        if isinstance(error, (KafkaError, ProtocolError)):
            return self.close(str(error))
        self.close(f"a bug: {error!r}")
        raise error

    def close(self, reason: str | None = None) -> None:
        """Gives the connection up; a second call does nothing."""
        if self._state is _CLOSED:
            return
        self._change(Change.CLOSE)
        self._replies.abandon()
        self._transport.close()
        self._on_close(self, reason)


_PEER_IS_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ETIMEDOUT, errno.EBADF})
