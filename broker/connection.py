"""The shell of one client connection: bytes in, frames to the dispatcher, replies out in the order of their requests.

- All requests that one turn of the loop brought are handled before anything is sent, and the replies to one client
  leave in one write. To wake a sleeping client costs as much as to handle a request: replies that leave together find
  it awake.
- A request may be answered later; those behind it are handled meanwhile, and answered after it.
- Who does not read is not read: above `MAX_UNSENT_BYTES` or `MAX_IN_FLIGHT` a client's socket is left alone until it
  catches up.
- Record slices of a file go out with `sendfile`; small ones are read and travel with what surrounds them.
- A view of a received frame is dead when its handler returns. Handlers copy what they keep.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.broker.buffers import Buffers
from barnabas.broker.loop import Loop
from barnabas.broker.poller import READ, WRITE
from barnabas.broker.promise import Promise, failed
from barnabas.broker.strangers import looks_like
from barnabas.protocol.errors import KafkaError, ProtocolError
from barnabas.protocol.frame import SIZE_BYTES, frame_size
from barnabas.storage.files import FileSlice

MAX_UNSENT_BYTES = 256 * 1024
MAX_IN_FLIGHT = 128
SENDFILE_ABOVE_BYTES = 16 * 1024
_SMALL_FRAME_BYTES = 16 * 1024
_BUFFERS_PER_SEND = 64
_MSG_MORE = getattr(socket, "MSG_MORE", 0)

Frame = tuple[bytes | bytearray, Sequence[tuple[int, Any]]]
Reply = Frame | None
"""An encoded response, or None where the client expects none (Produce with acks=0)."""


class Dispatch(Protocol):
    """Handles one request frame."""

    def __call__(self, frame: memoryview, connection: "Connection") -> Promise[Reply] | Reply: ...


class Connection:
    __slots__ = (
        "_buffers", "_dispatch", "_events", "_fd", "_filled", "_frame", "_going_on", "_in_flight", "_is_stopping",
        "_loop", "_max_frame_bytes", "_on_close", "_rest", "_set_aside", "_socket", "_unsent", "_unsent_bytes",
        "closed", "last_active_ms", "listener", "local", "peer", "requests",
    )  # fmt: skip

    def __init__(
        self,
        client: socket.socket,
        *,
        listener: str,
        loop: Loop,
        buffers: Buffers,
        dispatch: Dispatch,
        max_frame_bytes: int,
        on_close: Callable[["Connection", str | None], None],
    ) -> None:
        """`on_close` is told why, unless the client simply went away."""
        self._socket = client
        self._fd = client.fileno()
        self._loop = loop
        self._buffers = buffers
        self._dispatch = dispatch
        self._max_frame_bytes = max_frame_bytes
        self._on_close = on_close
        self._rest = b""  # the start of a small frame, or frames that were set aside
        self._set_aside = False  # until the client has caught up
        self._frame: memoryview | None = None  # the buffer of a large one
        self._filled = 0
        self._in_flight: deque[Promise[Reply]] = deque()
        self._unsent: deque[bytes | bytearray | memoryview | FileSlice] = deque()
        self._unsent_bytes = 0
        self._events = READ
        self._is_stopping = False
        self._going_on = False  # `_go_on` is in the loop's queue
        self.closed = False
        self.listener = listener
        self.local: tuple[str, int] = client.getsockname()[:2]
        self.peer: tuple[str, int] = client.getpeername()[:2]
        self.requests = 0
        self.last_active_ms = loop.now_ms()
        loop.register(self._fd, READ, self._on_event)

    # Receiving

    def _on_event(self, events: int) -> None:
        if self.closed:
            return  # by an event before this one, of the same turn of the loop
        if events & WRITE:
            self._send()
        if events & READ and not self.closed:
            self._receive()

    def _receive(self) -> None:
        self.last_active_ms = self._loop.now_ms()
        if self._frame is not None:
            self._receive_large(self._frame)
        elif len(self._rest) > _SMALL_FRAME_BYTES:
            self._resume()  # frames that were set aside come before new bytes
        else:
            self._receive_small()

    def _receive_small(self) -> None:
        scratch, kept = self._buffers.scratch, len(self._rest)
        count = self._receive_into(scratch[kept:] if kept else scratch)
        if count:
            if kept:
                scratch[:kept] = self._rest
            self._handle_frames(scratch[: kept + count])
            self._loop.expects_more = count < _SMALL_FRAME_BYTES

    def _receive_large(self, frame: memoryview) -> None:
        size = SIZE_BYTES + frame_size(frame, 0, self._max_frame_bytes)
        if self._filled == len(frame):
            frame = self._frame = self._buffers.grown(frame, size)
        self._filled += self._receive_into(frame[self._filled : min(size, len(frame))])
        if self._filled == size and not self.closed:
            self._frame = None
            self._handle_frames(frame[:size])
            self._buffers.give_back(frame)

    def _receive_into(self, buffer: memoryview) -> int:
        """How many bytes came. A client that went away is closed."""
        try:
            count = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            count = 0
        if not count:
            self.close()
        return count

    # Handling

    def _handle_frames(self, received: memoryview) -> None:
        """Every whole frame; their replies leave when the others' requests of this turn are handled, too."""
        if not self.requests and (stranger := looks_like(bytes(received[:SIZE_BYTES]))):
            return self.close(f"it looks like {stranger}")
        self._rest = b""
        try:
            handled = self._handle_whole(received)
            if handled < len(received):
                self._keep(received, handled)
            self._set_aside = self._is_behind()
        except Exception as error:
            if not self._in_flight:
                return self._break_off(error)
            self._in_flight.append(failed(error))  # when its turn comes the connection is closed
            self.stop_reading()
        self._loop.call_soon(self._send)

    def _handle_whole(self, received: memoryview) -> int:
        """Handles frame after frame while the client keeps up; returns where it stopped."""
        position, end, in_flight = 0, len(received), self._in_flight
        while end - position >= SIZE_BYTES and not self._is_behind():
            start = position + SIZE_BYTES
            next_position = start + frame_size(received, position, self._max_frame_bytes)
            if next_position > end or self.closed:
                break
            position = next_position
            self.requests += 1
            reply = self._dispatch(received[start:position], self)
            if type(reply) is tuple and not in_flight:
                self._enqueue(reply)
            elif reply is not None:
                self._enqueue_in_turn(reply)
        return position

    def _keep(self, received: memoryview, handled: int) -> None:
        count = len(received) - handled
        if count >= SIZE_BYTES:
            size = SIZE_BYTES + frame_size(received, handled, self._max_frame_bytes)
            if size > _SMALL_FRAME_BYTES and count < size:
                self._frame, self._filled = self._buffers.keep(received, handled, size), count
                return
        self._rest = bytes(received[handled:])

    def _enqueue_in_turn(self, reply: Promise[Reply] | Reply) -> None:
        """What is no answer yet, or has others to wait for."""
        if isinstance(reply, Promise) and reply.done and reply.error is None:
            reply = reply.value
        if isinstance(reply, Promise):
            self._in_flight.append(reply)
            reply.when_done(self._on_promise_kept)
        elif reply is not None and self._in_flight:
            promise: Promise[Reply] = Promise()
            promise.resolve(reply)
            self._in_flight.append(promise)
        elif reply is not None:
            self._enqueue(reply)

    def _on_promise_kept(self, _promise: Promise[Reply]) -> None:
        """Who keeps a promise may be in the middle of another client's request: what follows from it comes later.
        Promises that are kept together are answered together, too."""
        if not self.closed and self._in_flight[0].done:
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._going_on:
            self._going_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        if self.closed:
            return
        try:
            self._enqueue_kept()
        except Exception as error:
            return self._break_off(error)
        if self._set_aside and not self._is_behind():
            self._resume()
        else:
            self._send()

    def _enqueue_kept(self) -> None:
        while self._in_flight and self._in_flight[0].done:
            promise = self._in_flight.popleft()
            if promise.error is not None:
                raise promise.error
            if promise.value is not None:
                self._enqueue(promise.value)

    def _break_off(self, error: Exception) -> None:
        """What is wrong with one request takes the connection, but not the replies before it."""
        self._send()
        if isinstance(error, (KafkaError, ProtocolError)):
            return self.close(str(error))
        self.close(f"a bug: {error!r}")
        raise error

    def _is_behind(self) -> bool:
        return self._unsent_bytes > MAX_UNSENT_BYTES or len(self._in_flight) >= MAX_IN_FLIGHT or self._is_stopping

    def _resume(self) -> None:
        """Handles the whole frames that were set aside while the client was behind."""
        self._handle_frames(memoryview(bytearray(self._rest)))

    # Sending

    def _enqueue(self, reply: Frame) -> None:
        out, slices = reply
        if not slices:
            self._unsent.append(out)
            self._unsent_bytes += len(out)
            return
        whole, sent = memoryview(out), 0
        for position, records in slices:
            self._append(whole[sent:position])
            self._append(records if records.size > SENDFILE_ABOVE_BYTES else memoryview(records.read()))
            sent = position
        if sent < len(out):
            self._append(whole[sent:])

    def _append(self, part: memoryview | FileSlice) -> None:
        self._unsent.append(part)
        self._unsent_bytes += len(part)

    def _send(self) -> None:
        if self.closed:
            return
        unsent, unsent_bytes = self._unsent, self._unsent_bytes
        try:
            while unsent:
                if isinstance(unsent[0], FileSlice):
                    is_sent = self._send_slice()
                else:
                    is_sent = self._send_buffer() if len(unsent) == 1 else self._send_buffers()
                if not is_sent:
                    break
        except OSError as error:
            return self.close(None if error.errno in _PEER_IS_GONE else f"sending failed: {error}")
        if self._unsent_bytes != unsent_bytes:
            self.last_active_ms = self._loop.now_ms()
        if unsent or self._set_aside or self._events != READ or self._is_behind():
            self._watch()

    def _send_buffer(self) -> bool:
        """The only one, as it nearly always is; False when the socket takes no more."""
        only = self._unsent[0]
        assert not isinstance(only, FileSlice)
        try:
            sent = self._socket.send(only)
        except (BlockingIOError, InterruptedError):
            return False
        self._unsent_bytes -= sent
        if sent < len(only):
            self._unsent[0] = memoryview(only)[sent:]
            return False
        self._unsent.popleft()
        return True

    def _send_buffers(self) -> bool:
        """Sends what stands before the next slice; False when the socket takes no more."""
        unsent = self._unsent
        buffers: list[bytes | bytearray | memoryview] = []
        for part in unsent:
            if isinstance(part, FileSlice) or len(buffers) == _BUFFERS_PER_SEND:
                break
            buffers.append(part)
        more = len(buffers) < len(unsent)
        try:
            sent = self._socket.sendmsg(buffers, (), _MSG_MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            return False
        self._unsent_bytes -= sent
        while sent:
            first = buffers.pop(0)
            if sent < len(first):
                unsent[0] = memoryview(first)[sent:]
                return False
            sent -= len(first)
            unsent.popleft()
        return True

    def _send_slice(self) -> bool:
        part = self._unsent[0]
        assert isinstance(part, FileSlice)
        try:
            sent = os.sendfile(self._fd, part.fileno(), part.position, part.size)
        except (BlockingIOError, InterruptedError):
            return False
        if sent == 0:
            raise OSError(errno.EIO, "the file ended before the records that were promised")
        self._unsent_bytes -= sent
        if sent == part.size:
            self._unsent.popleft()
        else:
            self._unsent[0] = FileSlice(part.file, part.position + sent, part.size - sent)
        return True

    def _watch(self) -> None:
        """Asks the loop for what this connection can use: room to send, or, if it is not behind, more requests."""
        is_behind = self._is_behind()
        if self._set_aside and not is_behind:
            self._go_on_soon()
        events = (WRITE if self._unsent else 0) | (0 if is_behind else READ)
        if events == self._events:
            return
        if not self._events:
            self._loop.register(self._fd, events, self._on_event)
        elif not events:
            self._loop.unregister(self._fd)
        else:
            self._loop.modify(self._fd, events, self._on_event)
        self._events = events

    # Closing

    @property
    def is_idle(self) -> bool:
        """Nothing is being answered or sent. A frame that never gets whole does not count as work."""
        return not self._in_flight and not self._unsent

    @property
    def is_being_answered(self) -> bool:
        """The silence is ours: a request waits for what it asks for."""
        return bool(self._in_flight)

    @property
    def is_halfway(self) -> bool:
        """A frame has begun and is not whole."""
        return bool(self._rest) or self._frame is not None

    def stop_reading(self) -> None:
        """Answers what is here and takes no more."""
        self._is_stopping = True
        self._watch()

    def close(self, reason: str | None = None) -> None:
        if self.closed:
            return
        self.closed = True
        if self._events:
            self._loop.unregister(self._fd)
        self._unsent.clear()
        for promise in self._in_flight:
            promise.abandon()
        self._in_flight.clear()
        self._frame = None
        self._socket.close()
        self._on_close(self, reason)


_PEER_IS_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ETIMEDOUT, errno.EBADF})
