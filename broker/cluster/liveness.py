"""Which brokers are alive, as the active controller sees it from their connections.

Rules:
- A broker's *link* is the connection on which it last sent a heartbeat. Only its end, and only if the broker ended it,
  says anything.
- When a link ends, the broker's own address is dialled. If nobody listens there, its process is dead, and its session
  ends at once. Anything else, an answer or silence, leaves it to `broker.session.timeout.ms`.
- An address that only the broker's own machine knows, such as localhost, says nothing to another machine: there only
  the session timeout counts.
- A new controller has no links. It dials the brokers that have not reported to it so far: one that died together with
  the controller before it would be missed by nobody else.
- A process that registers with the addresses of a broker that has no link is that broker's successor: two processes
  cannot listen on one address. It does not wait for the end of a session.
"""

from collections.abc import Callable

from barnabas.base.environment import Environment
from barnabas.base.network import READ, WRITE, Address, Transport
from barnabas.broker.network.listeners import is_loopback
from barnabas.broker.network.session import Session
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.replication.controller.quorum_controller import NOT_ACTIVE, QuorumController
from barnabas.replication.metadata.image import BrokerImage

_DIAL_MS = 1_000


class BrokerLinks:
    """The links of the brokers that report to this node."""

    def __init__(
        self, quorum: QuorumController, environment: Environment, *, node_id: int, inter_broker_listener: str
    ) -> None:
        self._quorum = quorum
        self._inter_broker_listener = inter_broker_listener
        self._node_id = node_id
        self._environment = environment
        self._links: dict[int, Session] = {}
        self._dialled_epoch = NOT_ACTIVE

    def heard(self, broker_id: int, session: Session) -> None:
        """Notes a heartbeat of a broker on this connection."""
        if self._links.get(broker_id) is session:
            return
        self._links[broker_id] = session
        session.on_hangup = lambda: self._hung_up(broker_id, session)

    def _hung_up(self, broker_id: int, session: Session) -> None:
        if self._links.get(broker_id) is not session:
            return
        del self._links[broker_id]
        broker = self._quorum.loader.image.brokers.get(broker_id)
        if self._quorum.is_active and broker is not None:
            self._dial(broker)

    def dial_silent(self) -> None:
        """Dials the brokers that have not reported so far, once in each epoch of this controller."""
        if self._quorum.active_epoch != self._dialled_epoch:
            self._dialled_epoch = self._quorum.active_epoch
            for broker in self._quorum.loader.image.brokers.values():
                if broker.broker_id not in self._links and broker.broker_id != self._node_id:
                    self._dial(broker)

    def _dial(self, broker: BrokerImage) -> None:
        address = self._address_of(broker)
        if not broker.fenced and self._is_known_here(address.host):
            _Dial(self._environment, address, lambda: self._is_dead(broker))

    def _address_of(self, broker: BrokerImage) -> Address:
        """Returns where brokers reach this one; of other listeners clients may know more than we do."""
        first = next(iter(broker.endpoints.values()))
        endpoint = broker.endpoints.get(self._inter_broker_listener, first)
        return Address(endpoint.host, endpoint.port)

    def _is_known_here(self, host: str) -> bool:
        """Returns whether a host means the same to this node as to the broker that registered it. A loopback address
        does only where the whole cluster is on one machine, and so where its controllers have such addresses."""
        own = self._quorum.driver.addresses
        return not is_loopback(host) or (bool(own) and is_loopback(own[0].host))

    def _is_dead(self, broker: BrokerImage) -> None:
        """Ends the session of a broker whose process is gone, unless it has come back meanwhile."""
        known = self._quorum.loader.image.brokers.get(broker.broker_id)
        if broker.broker_id not in self._links and known is not None and known.broker_epoch == broker.broker_epoch:
            self._environment.report.info(
                f"broker {broker.broker_id} is down: nobody listens at its address",
                broker=broker.broker_id,
            )
            self._quorum.end_session(broker.broker_id)

    def registers(self, request: BrokerRegistrationRequest) -> None:
        """Makes way for a process that takes the place of a dead one at the same addresses."""
        known = self._quorum.loader.image.brokers.get(request.broker_id)
        if known is None or known.incarnation_id == request.incarnation_id or request.broker_id in self._links:
            return
        before = {(name, end.host, end.port) for name, end in known.endpoints.items()}
        if not all(self._is_known_here(end.host) for end in request.listeners):
            return
        if before == {(end.name, end.host, end.port) for end in request.listeners}:
            self._quorum.end_session(request.broker_id)


class _Dial:
    """One attempt to connect. `on_refused` is called if the machine answers that nobody listens there."""

    def __init__(self, environment: Environment, address: Address, on_refused: Callable[[], None]) -> None:
        self._on_refused = on_refused
        self._transport: Transport | None = None
        try:
            self._transport = environment.network.connect(address)
        except ConnectionRefusedError:
            environment.clock.call_soon(on_refused)
            return
        except OSError:
            return
        self._timer = environment.clock.call_later(_DIAL_MS, self._end)
        self._transport.watch(READ | WRITE, self._on_event)

    def _on_event(self, _events: int) -> None:
        assert self._transport is not None
        is_refused = False
        try:
            self._transport.receive_into(memoryview(bytearray(1)))
        except ConnectionRefusedError:
            is_refused = True
        except OSError:
            pass
        self._end()
        if is_refused:
            self._on_refused()

    def _end(self) -> None:
        self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
