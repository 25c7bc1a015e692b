"""Which other brokers are probably dead, as this broker sees it before the controller has said so.

Rules:
- This broker keeps an idle connection to each unfenced other one, on which nothing is ever sent. A process that dies
  takes it along, and this broker hears of that as early as the clients of the dead one do.
- When it ends, the other broker is *doubted*, for a moment, and dialled at once. If it accepts, all is well. If nobody
  listens there, it is *suspected*: until the metadata say something new of it, until it accepts again, or for two
  seconds.
- A broker that was never reached is never suspected: its address may mean nothing here.
- Whoever asks for leaders and coordinators may wait while one is doubted, and is not told of one that is suspected.
  Nothing else depends on it: only the controller decides who leads.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from barnabas.base.environment import Environment, Timer
from barnabas.base.network import READ, WRITE, Address, Transport
from barnabas.broker.cluster.inter_broker import address_of, is_known_here
from barnabas.replication.metadata.image import MetadataImage

DOUBTED_MS = 250
SUSPECTED_MS = 2_000
_CONNECTING_MS = 2_000
_PAUSES_MS = (0, 20, 50, 100, 200, 500, 1_000)
"""How long to wait before the next connection, after so many that failed or ended soon."""
_STEADY_MS = 1_000
"""A connection that has lived so long did not end soon."""


class _Peer(NamedTuple):
    """A registration of a broker, and where it is."""

    broker_id: int
    broker_epoch: int
    address: Address


class Suspects:
    def __init__(
        self, environment: Environment, on_change: Callable[[], None], *, node_id: int, inter_broker_listener: str
    ) -> None:
        """Calls `on_change` when somebody is doubted or suspected no more, or doubted no more and suspected."""
        self.suspected: set[int] = set()
        self._doubted: dict[int, Timer] = {}
        """Those and the suspected, with the time until which they are."""
        self._environment = environment
        self._on_change = on_change
        self._node_id = node_id
        self._inter_broker_listener = inter_broker_listener
        self._watches: dict[_Peer, _Watch] = {}

    @property
    def doubted(self) -> Collection[int]:
        """Returns those that are doubted or suspected."""
        return self._doubted.keys()

    # ---- whom to watch

    def follow(self, image: MetadataImage, changed: Collection[int]) -> None:
        """Watches the unfenced brokers of an image. What is new of a broker takes the place of suspicions."""
        for broker_id in changed:
            self.clear(broker_id)
        peers = dict.fromkeys(self._peers(image))
        for peer in [peer for peer in self._watches if peer not in peers]:
            self._watches.pop(peer).close()
        for peer in peers:
            if peer not in self._watches:
                self._watches[peer] = _Watch(self, self._environment, peer)

    def _peers(self, image: MetadataImage) -> Iterator[_Peer]:
        """Yields those that this node knows how to reach, once it is registered itself."""
        own = image.brokers.get(self._node_id)
        own_address = None if own is None else address_of(own, self._inter_broker_listener)
        for broker_id, broker in sorted(image.brokers.items()):
            address = address_of(broker, self._inter_broker_listener)
            if broker_id == self._node_id or broker.fenced or address is None or own_address is None:
                continue
            if is_known_here(address.host, own_address.host):
                yield _Peer(broker_id, broker.broker_epoch, address)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        for timer in self._doubted.values():
            timer.cancel()
        self._doubted.clear()
        self.suspected.clear()

    # ---- what the watches see

    def doubt(self, broker_id: int) -> None:
        self._set_timer(broker_id, DOUBTED_MS)

    def suspect(self, broker_id: int) -> None:
        self._set_timer(broker_id, SUSPECTED_MS)
        self.suspected.add(broker_id)

    def clear(self, broker_id: int) -> None:
        """Takes a doubt or a suspicion back."""
        if (timer := self._doubted.pop(broker_id, None)) is not None:
            timer.cancel()
            self.suspected.discard(broker_id)
            self._on_change()

    def _set_timer(self, broker_id: int, delay_ms: int) -> None:
        if (timer := self._doubted.get(broker_id)) is not None:
            timer.cancel()
        self._doubted[broker_id] = self._environment.clock.call_later(delay_ms, self.clear, broker_id)


class _Watch:
    """The connection to one broker, and those that take its place."""

    def __init__(self, suspects: Suspects, environment: Environment, peer: _Peer) -> None:
        self._suspects = suspects
        self._network = environment.network
        self._clock = environment.clock
        self._peer = peer
        self._transport: Transport | None = None
        self._timer: Timer | None = None
        self._has_closed = False
        """Whether a connection that stood has ended, and the next attempt has not."""
        self._stands_since_ms: int | None = None
        self._failures = 0
        self._is_over = False
        self._connect()

    def _connect(self) -> None:
        self._timer = None
        try:
            self._transport = self._network.connect(self._peer.address)
        except OSError as error:
            self._timer = self._clock.call_later(0, self._ended, error)
            return
        self._timer = self._clock.call_later(_CONNECTING_MS, self._ended, TimeoutError())
        self._transport.watch(READ | WRITE, self._on_event)

    def _on_event(self, _events: int) -> None:
        assert self._transport is not None
        try:
            count = self._transport.receive_into(memoryview(bytearray(64)))
        except (BlockingIOError, InterruptedError):
            return self._stands()
        except OSError as error:
            return self._ended(error)
        if not count:
            self._ended(ConnectionResetError())

    def _stands(self) -> None:
        if self._stands_since_ms is None:
            assert self._transport is not None
            self._stands_since_ms = self._clock.monotonic_ms()
            self._has_closed = False
            self._cancel_timer()
            self._transport.watch(READ, self._on_event)
            self._suspects.clear(self._peer.broker_id)

    def _ended(self, error: OSError) -> None:
        since_ms, self._stands_since_ms = self._stands_since_ms, None
        self._drop()
        if since_ms is not None:
            self._has_closed = True
            if self._clock.monotonic_ms() - since_ms >= _STEADY_MS:
                self._failures = 0
            self._suspects.doubt(self._peer.broker_id)
        elif self._has_closed and isinstance(error, ConnectionRefusedError):
            self._has_closed = False
            self._suspects.suspect(self._peer.broker_id)
        if not self._is_over:
            pause_ms = _PAUSES_MS[min(self._failures, len(_PAUSES_MS) - 1)]
            self._failures += 1
            self._timer = self._clock.call_later(pause_ms, self._connect)

    def _drop(self) -> None:
        self._cancel_timer()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        self._is_over = True
        self._drop()
