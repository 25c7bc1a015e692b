"""Which other brokers are probably dead, as this broker sees it before the controller has said so.

Rules:
- This broker keeps an idle connection to each unfenced other one, and says on it who it is. So there are two between
  any two brokers. A process that dies takes them along, those that it made first of all (`system/sockets.py`), and the
  others hear of its death before its clients do.
- When one of them ends, the other broker is *doubted*, for a moment, and dialled at once. If it answers a request, all
  is well; to accept is not enough, because a system that takes a dead process apart may close its listener last. If
  nobody listens there, it is *suspected*: until the metadata say something new of it, until it answers again, or for
  two seconds.
- A broker that was never reached is never suspected: its address may mean nothing here.
- Whoever asks for leaders and coordinators may wait while one is doubted, and is not told of one that is suspected.
  Nothing else depends on it: only the controller decides who leads.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial

from barnabas.base.environment import Environment, Timer
from barnabas.base.network import READ, WRITE, Address, Transport
from barnabas.broker.cluster.inter_broker import WATCHER, address_of, is_known_here
from barnabas.broker.cluster.probe import Outcome, Probe, ask_for_a_sign
from barnabas.broker.network.session import Session
from barnabas.protocol.named_tuple import NamedTuple
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
        self._probes: dict[int, Probe] = {}

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
                client_id = f"{WATCHER}{self._node_id}"
                self._watches[peer] = _Watch(self, self._environment, peer, client_id)

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
        for probe in self._probes.values():
            probe.cancel()
        self._probes.clear()
        for timer in self._doubted.values():
            timer.cancel()
        self._doubted.clear()
        self.suspected.clear()

    # ---- those who watch this broker

    def watched_by(self, client_id: str, session: Session) -> None:
        """Listens to the end of a connection on which another broker watches this one."""
        node_id = client_id.removeprefix(WATCHER)
        if node_id.isdecimal():
            session.on_hangup = lambda: self.lost(int(node_id))

    def lost(self, broker_id: int) -> None:
        """Finds out what it means that a broker has ended a connection. Whoever it was that claimed to be this broker:
        an answer of the broker clears it."""
        peer = next((peer for peer in self._watches if peer.broker_id == broker_id), None)
        if peer is None or broker_id in self._probes or not self._watches[peer].was_reached:
            return
        self.doubt(broker_id)
        self._probes[broker_id] = Probe(
            self._environment, peer.address, lambda outcome: self._probed(peer, outcome is Outcome.REFUSED)
        )

    def _probed(self, peer: _Peer, is_refused: bool) -> None:
        del self._probes[peer.broker_id]
        if not is_refused:
            self.clear(peer.broker_id)
        elif peer in self._watches:
            self.suspect(peer.broker_id)

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

    def __init__(self, suspects: Suspects, environment: Environment, peer: _Peer, client_id: str) -> None:
        self._suspects = suspects
        self._network = environment.network
        self._clock = environment.clock
        self._peer = peer
        self.was_reached = False
        self._client_id = client_id
        self._transport: Transport | None = None
        self._timer: Timer | None = None
        self._has_closed = False
        """Whether a connection that stood has ended, and the next attempt has not."""
        self._stands_since_ms: int | None = None
        self._failures = 0
        self._is_over = False
        self._answer = memoryview(bytearray(1_024))
        """Where bytes go that nobody looks at."""
        self._connect()

    def _connect(self) -> None:
        self._timer = None
        try:
            transport = self._transport = self._network.connect(self._peer.address)
        except OSError as error:
            self._timer = self._clock.call_later(0, self._ended, error)
            return
        self._timer = self._clock.call_later(_CONNECTING_MS, self._ended, TimeoutError())
        transport.watch(READ | WRITE, partial(self._on_event, transport))

    def _on_event(self, transport: Transport, events: int) -> None:
        if transport is not self._transport:
            return  # it was dropped in this turn, after the event
        try:
            if events & WRITE:
                ask_for_a_sign(transport, self._client_id)
                transport.watch(READ, partial(self._on_event, transport))
            elif transport.receive_into(self._answer):
                self._stands()
            else:
                self._ended(ConnectionResetError())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._ended(error)

    def _stands(self) -> None:
        if self._stands_since_ms is None:
            self._stands_since_ms = self._clock.monotonic_ms()
            self._has_closed, self.was_reached = False, True
            self._cancel_timer()
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
