"""One simulated TCP connection: two ordered streams of bytes, each with its own latency, bandwidth and troubles.

Inside a connection nothing is lost, repeated or reordered: bytes come late, or the connection breaks. What a sender may
send is limited by a window, which the receiver opens by reading and of which the sender hears a latency later.

- A path that is cut, in one direction, holds bytes (and the news of an open window) back until it heals.
- A stream that is cut ends after a number of bytes: by FIN, by RST, or by silence, which nobody is told of.
- A transport of a process that was killed is closed by its kernel. One of a machine without power is just gone; bytes
  sent to it are answered with RST once the machine is up again.
"""

import errno
from collections import deque
from enum import Enum
from random import Random
from zlib import crc32

from tests.simulation.net.paths import Path
from tests.simulation.net.transport import SimulatedTransport
from tests.simulation.scheduler import MS, SECOND, Scheduler

GIVE_UP_US = 900 * SECOND
"""How long TCP sends the same bytes again before it gives the connection up."""
_SPLIT_CHANCE = 0.1


class End(Enum):
    FIN = "fin"
    RST = "reset"
    SILENCE = "silence"


class Stream:
    """One direction of a connection."""

    __slots__ = (
        "_acks", "_cut_at", "_cut_by", "_free_us", "_gives_up", "_is_over", "_last_us", "_random",
        "_scheduler", "_segments", "_sender_waits", "_stalled_until_us", "acked", "bytes_per_s", "connection",
        "consumed", "delivered", "path", "receiver", "reverse", "sender", "sent", "window_bytes",
    )  # fmt: skip

    def __init__(self, connection: "Connection", path: Path, reverse: Path, random: Random) -> None:
        self.connection = connection
        self.sender: SimulatedTransport
        self.receiver: SimulatedTransport
        self.window_bytes = random.choice((3_000, 65_536, 65_536, 262_144))
        self.bytes_per_s = random.choice((2_000_000, 100_000_000, 1_000_000_000))
        self.sent = 0
        self.delivered = 0
        self.consumed = 0
        self.acked = 0
        self._scheduler = connection.scheduler
        self._random = random
        self.path = path
        self.reverse = reverse
        self._segments: deque[tuple[int, bytes | None]] = deque()
        """(when it arrives, bytes); no bytes: FIN."""
        self._acks: deque[tuple[int, int]] = deque()
        """(when the sender hears of it, how many bytes were read)."""
        self._sender_waits = False
        self._free_us = 0
        self._last_us = 0
        self._stalled_until_us = 0
        self._gives_up = False
        self._cut_at = -1
        self._cut_by = End.FIN
        self._is_over = False

    # The sender's side

    def room(self) -> int:
        acks, now_us = self._acks, self._scheduler.now_us
        while acks and acks[0][0] <= now_us:
            self.acked = acks.popleft()[1]
        return self.window_bytes - (self.sent - self.acked)

    def wants_room(self) -> None:
        """The sender is called when it can send more."""
        if not self._sender_waits:
            self._sender_waits = True
            if self._acks:
                self._scheduler.at(self._acks[0][0], self._random, self._tell_sender)

    def _tell_sender(self) -> None:
        self._sender_waits = False
        self.sender.may_be_ready()

    def put(self, data: bytes) -> None:
        self.sent += len(data)
        if len(data) > 1 and self._random.random() < _SPLIT_CHANCE:
            middle = self._random.randrange(1, len(data))
            self._put(data[:middle])
            data = data[middle:]
        self._put(data)

    def _put(self, data: bytes | None) -> None:
        now_us = self._scheduler.now_us
        self._free_us = max(now_us, self._free_us) + (len(data) * SECOND // self.bytes_per_s if data else 0)
        self._last_us = max(self._last_us, self._free_us + self.path.latency_us(self._random))
        self._segments.append((self._last_us, data))
        self._scheduler.at(self._last_us, self._random, self.arrive)

    def finish(self) -> None:
        """FIN: behind everything that was sent."""
        self._put(None)

    def reset(self, *, delay_us: int = 0) -> None:
        """RST. It is sent once: where the path is cut, it is lost."""
        when_us = max(self._last_us, self._scheduler.now_us + self.path.latency_us(self._random) + delay_us)
        self._scheduler.at(when_us, self._random, self._reset_arrives)

    def _reset_arrives(self) -> None:
        if not self.path.is_cut and not self._is_over:
            self.receiver.break_off(errno.ECONNRESET, forgets_unread=self._random.random() < 0.5)

    def lose_unsent(self) -> None:
        """The sender's machine is gone, and with it what it had not sent so far."""
        for _ in range(self._random.randrange(len(self._segments) + 1)):
            self._segments.pop()

    # ---- between them

    def stall(self, duration_ms: float) -> None:
        self._stalled_until_us = max(self._stalled_until_us, self._scheduler.now_us + int(duration_ms * MS))
        self._scheduler.at(self._stalled_until_us, self._random, self.arrive)

    def cut(self, end: End, after_bytes: int = 0) -> None:
        """So many bytes still arrive."""
        self._cut_at = self.delivered + after_bytes
        self._cut_by = end
        if after_bytes == 0:
            self._end()

    @property
    def is_cut(self) -> bool:
        """Whether it ends, or has ended, before what was sent does."""
        return self._cut_at >= 0

    def arrive(self) -> None:
        """Hands over what is due."""
        segments, receiver, now_us = self._segments, self.receiver, self._scheduler.now_us
        if self.path.is_cut:
            return self._no_progress()
        if now_us < self._stalled_until_us:
            return
        arrived = False
        while segments and segments[0][0] <= now_us:
            data = segments.popleft()[1]
            if receiver.is_gone:
                return self._meet_nobody(data)
            arrived = self._deliver(data) or arrived
        if arrived:
            receiver.may_be_ready()

    def _deliver(self, data: bytes | None) -> bool:
        """Returns whether the receiver got something."""
        if self._cut_at >= 0 and (data is None or self.delivered + len(data) >= self._cut_at):
            return self._deliver_last((data or b"")[: self._cut_at - self.delivered])
        if data is None:
            self.receiver.has_ended = True
        else:
            self._receive(data)
        return True

    def _deliver_last(self, data: bytes) -> bool:
        if data:
            self._receive(data)
        if not self._is_over:
            self._end()
        elif self._cut_by is End.FIN:
            self.sender.break_off(errno.ECONNRESET, forgets_unread=False)
        self._no_progress()
        return bool(data)

    def _receive(self, data: bytes) -> None:
        self._scheduler.trace.note(self.connection.number, self.receiver.local[0], len(data), crc32(data))
        self.delivered += len(data)
        self.receiver.unread += data

    def _end(self) -> None:
        """Here the stream is cut. Silence has one direction, the others end both."""
        self._is_over = True
        if self._cut_by is End.SILENCE:
            return
        opposite = self._opposite
        opposite._cut_at, opposite._cut_by, opposite._is_over = opposite.delivered, self._cut_by, True
        for transport in (self.receiver, self.sender):
            if self._cut_by is End.FIN:
                transport.has_ended = True
                transport.may_be_ready()
            else:
                transport.break_off(errno.ECONNRESET, forgets_unread=False)

    def _meet_nobody(self, data: bytes | None) -> None:
        self._segments.clear()
        if self.receiver.host.is_up:
            if data is not None:
                self._opposite.reset()
        elif data is not None:
            self.receiver.host.when_up(self._answer_from_the_grave)
            self._no_progress()

    def _answer_from_the_grave(self) -> None:
        """The machine is up again and gets the bytes once more, for a connection that it knows nothing of."""
        self._opposite.reset(delay_us=self._random.randrange(2 * SECOND))

    @property
    def _opposite(self) -> "Stream":
        return self.receiver.outgoing

    def _no_progress(self) -> None:
        if not self._gives_up:
            self._gives_up = True
            self._scheduler.at(self._scheduler.now_us + GIVE_UP_US, self._random, self._give_up, self.acked)

    def _give_up(self, acked: int) -> None:
        self._gives_up = False
        self.room()
        if self.acked == acked < self.sent:
            self.sender.break_off(errno.ETIMEDOUT, forgets_unread=False)

    # The receiver's side

    def consume(self, count: int) -> None:
        self.consumed += count
        self.acknowledge()

    def acknowledge(self) -> None:
        if self.reverse.is_cut:
            return self._no_progress()
        when_us = self._scheduler.now_us + self.reverse.latency_us(self._random)
        self._acks.append((max(when_us, self._acks[-1][0]) if self._acks else when_us, self.consumed))
        if self._sender_waits:
            self._scheduler.at(self._acks[-1][0], self._random, self._tell_sender)


class Connection:
    """Both directions, for those who want to break it."""

    def __init__(self, scheduler: Scheduler, number: int, paths: tuple[Path, Path], random: Random) -> None:
        self.scheduler = scheduler
        self.number = number
        self.ends: list[SimulatedTransport] = []
        """The client's, and the server's from the moment on at which the connection stands."""
        there, back = paths
        self.to_server = Stream(self, there, back, random)
        self.to_client = Stream(self, back, there, random)

    @property
    def is_held(self) -> bool:
        """One of the two ends is still in use."""
        return not all(transport.is_gone for transport in self.ends)

    @property
    def machines(self) -> tuple[str, str]:
        """Who has opened it, and to whom."""
        return self.ends[0].local[0], self.ends[0].peer[0]

    def enter_paths(self) -> None:
        for stream in (self.to_server, self.to_client):
            stream.path.streams[stream] = stream.reverse.acknowledged[stream] = None

    def leave_paths(self) -> None:
        for stream in (self.to_server, self.to_client):
            stream.path.streams.pop(stream, None)
            stream.reverse.acknowledged.pop(stream, None)

    def __repr__(self) -> str:
        client, server = self.ends[0].local, self.ends[0].peer
        return f"connection {self.number} from {client[0]}:{client[1]} to {server[0]}:{server[1]}"
