"""The replies of one connection, in the order of their requests, without I/O of its own.

- A reply is a frame, a promise of one, or None where the client expects none (Produce with acks=0).
- A reply that is promised does not hold up the handling of later requests, but their replies leave after it.
- Record slices of a file stay slices, to be sent with `sendfile`; small ones are read and joined with what surrounds
  them: a follower's answer may have hundreds, and to handle each as a part of its own costs more than to copy it.
- A client that does not read its replies falls behind: the queue says so, and its owner reads no more requests.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from barnabas.base.files import Buffer
from barnabas.base.promise import Promise, failed
from barnabas.broker.network.send_queue import SendQueue
from barnabas.protocol.errors import KafkaStorageError

MAX_UNSENT_BYTES = 256 * 1024
MAX_IN_FLIGHT = 128
SENDFILE_ABOVE_BYTES = 16 * 1024
_JOINED_MAX = 64

Frame = tuple[bytes | bytearray, Sequence[tuple[int, Any]]]
Reply = Frame | None
"""An encoded response and the record slices inside it, or None where the client expects no response."""


class ReplyQueue(SendQueue):
    __slots__ = ("in_flight",)

    def __init__(self) -> None:
        super().__init__()
        self.in_flight: deque[Promise[Reply]] = deque()
        """Replies that are not ready so far, or that wait for one that is not."""

    @property
    def is_empty(self) -> bool:
        return not self.in_flight and not self.unsent

    def is_behind(self) -> bool:
        """Returns whether the client should read, or wait, before it is served more."""
        return self.unsent_bytes > MAX_UNSENT_BYTES or len(self.in_flight) >= MAX_IN_FLIGHT

    def add(self, reply: Promise[Reply] | Reply) -> Promise[Reply] | None:
        """Takes the reply to the next request. Returns the promise that its owner has to wait for, if there is one."""
        if type(reply) is tuple and not self.in_flight:
            out, slices = reply
            if slices:
                self._enqueue(reply)
            else:  # nearly all of them: no call more than this one
                self.unsent.append(out)
                self.unsent_bytes += len(out)
            return None
        if isinstance(reply, Promise) and reply.done and reply.error is None:
            reply = reply.value
        if isinstance(reply, Promise):
            self.in_flight.append(reply)
            return reply
        if reply is not None and self.in_flight:
            promise: Promise[Reply] = Promise()
            promise.resolve(reply)
            self.in_flight.append(promise)
        elif reply is not None:
            self._enqueue(reply)
        return None

    def add_error(self, error: Exception) -> None:
        """Lets `settle` raise the error once all replies before it are enqueued."""
        self.in_flight.append(failed(error))

    @property
    def has_settled(self) -> bool:
        """Returns whether the oldest promise is kept."""
        return bool(self.in_flight) and self.in_flight[0].done

    def settle(self) -> None:
        """Enqueues the replies whose promises are kept, up to the first that is not. Raises the error of one that
        failed."""
        in_flight = self.in_flight
        while in_flight and in_flight[0].done:
            promise = in_flight.popleft()
            if promise.error is not None:
                raise promise.error
            if promise.value is not None:
                self._enqueue(promise.value)

    def _enqueue(self, reply: Frame) -> None:
        out, slices = reply
        if not slices:
            self.unsent.append(out)
            self.unsent_bytes += len(out)
            return
        whole, taken = memoryview(out), 0
        small: list[Buffer] = []
        for position, records in slices:
            small.append(whole[taken:position])
            if records.size > SENDFILE_ABOVE_BYTES:
                self.append(b"".join(small))
                self.append(records)
                small = []
            else:
                data = records.read()
                if len(data) < records.size:
                    raise KafkaStorageError("a file was cut while its records were being sent")
                small.append(data)
                if len(small) >= _JOINED_MAX:
                    self.append(b"".join(small))
                    small = []
            taken = position
        small.append(whole[taken:])
        self.append(b"".join(small))

    def abandon(self) -> None:
        """Drops everything: nobody is there to read it."""
        self.clear()
        for promise in self.in_flight:
            promise.abandon()
        self.in_flight.clear()
