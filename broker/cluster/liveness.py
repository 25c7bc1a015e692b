"""Which brokers are alive, as the active controller sees it from their connections.

Rules:
1. *The link.* A broker's link is the connection on which the active controller last answered a heartbeat of this
   registration of it. Only its end, and only if the broker's side ended it, says anything.
2. *The probe.* When a link ends, the address where brokers reach this one is dialled (`probe.py`). If nobody listens
   there, its process is dead, and its session ends at once. If somebody does, only `broker.session.timeout.ms` counts.
   If nothing answers, its machine may be gone as well: it has as long as the probe waits to report again.
3. *The way back.* A broker that lives and has lost its link connects at once, and reports first (`to_controller.py`).
4. *This end.* A controller that leads no more ignores what closes: its brokers go to another. If half of the links, and
   two at least, end together, the fault may be here: then only a refused connection counts. Whoever limits connections,
   or how long they are idle, leaves links alone (`Acceptor`).
5. *False alarms.* A broker that was fenced by these rules and reports again under the same epoch had not died. It is
   not fenced by them for a while, which doubles each time.
6. *The successor.* A process that registers with the addresses of a broker that has no link takes its place: two
   processes cannot listen on one address. It does not wait for the end of a session.

A new controller has no links. It dials all unfenced brokers: one that died together with the controller before it would
be missed by nobody else. As none of them has closed anything, only a refused connection counts.
An address that only the broker's own machine knows, such as localhost, says nothing to another machine.
`counts` says how often each rule decided.
"""

from barnabas.base.environment import Environment
from barnabas.broker.cluster.inter_broker import address_of, is_known_here
from barnabas.broker.cluster.link_rules import Crowd, FalseAlarms, LinkCounts
from barnabas.broker.cluster.probe import Outcome, Probe
from barnabas.broker.network.session import Session
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.controller.quorum_controller import NOT_ACTIVE, QuorumController
from barnabas.replication.metadata.image import BrokerImage


class _Link(NamedTuple):
    broker_epoch: int
    session: Session


class BrokerLinks:
    """The links of the brokers that report to this node."""

    def __init__(
        self, quorum: QuorumController, environment: Environment, *, node_id: int, inter_broker_listener: str
    ) -> None:
        self.counts = LinkCounts()
        self._quorum = quorum
        self._inter_broker_listener = inter_broker_listener
        self._node_id = node_id
        self._environment = environment
        self._clock = environment.clock
        self._links: dict[int, _Link] = {}
        self._probes: dict[int, Probe] = {}
        self._crowd: Crowd | None = None
        self._false_alarms = FalseAlarms()
        self._dialled_epoch = NOT_ACTIVE

    def heard(self, broker_id: int, broker_epoch: int, session: Session) -> None:
        """Notes that a heartbeat of a broker on this connection was answered."""
        known = self._links.get(broker_id)
        if known is not None and known.session is session and known.broker_epoch == broker_epoch:
            return
        self._links[broker_id] = _Link(broker_epoch, session)
        session.on_hangup = lambda: self._hung_up(broker_id, session)
        if (probe := self._probes.pop(broker_id, None)) is not None:
            probe.cancel()
            self.counts.came_back += 1
        spared_ms = self._false_alarms.heard(broker_id, broker_epoch, now_ms=self._clock.monotonic_ms())
        if spared_ms:
            self.counts.false_alarms += 1
            self._environment.report.warning(
                f"broker {broker_id} was fenced and is alive: for {spared_ms // 1_000} s only its session counts",
                broker=broker_id,
                false_alarms=self.counts.false_alarms,
            )
        if session.has_hung_up:
            self._hung_up(broker_id, session)  # while its heartbeat was being decided

    def _hung_up(self, broker_id: int, session: Session) -> None:
        link = self._links.get(broker_id)
        if link is None or link.session is not session:
            return
        if not self._quorum.is_active:
            self.counts.ignored += 1
            del self._links[broker_id]
            return
        self.counts.closed += 1
        crowd = self._crowd_of_now()
        crowd.join()
        del self._links[broker_id]
        broker = self._quorum.loader.image.brokers.get(broker_id)
        if broker is not None and broker.broker_epoch == link.broker_epoch:
            self._dial(broker, crowd)

    def _crowd_of_now(self) -> Crowd:
        now_ms = self._clock.monotonic_ms()
        if self._crowd is None or not self._crowd.takes(now_ms=now_ms):
            self._crowd = Crowd(len(self._links), now_ms=now_ms)
        return self._crowd

    def dial_all(self) -> None:
        """Dials every other broker, once in each epoch of this controller."""
        if self._quorum.active_epoch == self._dialled_epoch:
            return
        self._dialled_epoch = self._quorum.active_epoch
        self._links.clear()  # those of an earlier epoch may be dead, and nobody told
        for broker in self._quorum.loader.image.brokers.values():
            if broker.broker_id != self._node_id:
                self._dial(broker, None)

    def _dial(self, broker: BrokerImage, crowd: Crowd | None) -> None:
        address = address_of(broker, self._inter_broker_listener)
        if broker.fenced or address is None or not self._is_known_here(address.host):
            return
        if (earlier := self._probes.get(broker.broker_id)) is not None:
            earlier.cancel()
        self._probes[broker.broker_id] = Probe(
            self._environment, address, lambda outcome: self._probed(broker, crowd, outcome)
        )

    def _is_known_here(self, host: str) -> bool:
        """Says so by the address of this controller, where it has one."""
        own = self._quorum.driver.addresses
        return is_known_here(host, own[0].host if own else "")

    def _probed(self, broker: BrokerImage, crowd: Crowd | None, outcome: Outcome) -> None:
        del self._probes[broker.broker_id]
        if outcome is Outcome.UNCLEAR:
            self.counts.unclear += 1
        elif outcome is Outcome.REFUSED:
            self.counts.refused += self._fences(broker, "nobody listens at its address")
        elif crowd is not None and crowd.is_suspicious:
            self.counts.crowded += 1
        elif crowd is not None:
            why = "it closed its connection, and its address does not answer"
            self.counts.unreachable += self._fences(broker, why)

    def _fences(self, broker: BrokerImage, why: str) -> bool:
        """Ends the session of a broker whose process is gone, unless another has taken its place meanwhile; returns
        whether it did."""
        broker_id, broker_epoch = broker.broker_id, broker.broker_epoch
        known = self._quorum.loader.image.brokers.get(broker_id)
        if not self._quorum.is_active or known is None or known.broker_epoch != broker_epoch or known.fenced:
            return False
        if self._false_alarms.is_spared(broker_id, broker_epoch, now_ms=self._clock.monotonic_ms()):
            self.counts.spared += 1
            return False
        self._environment.report.info(f"broker {broker_id} is down: {why}", broker=broker_id)
        self._false_alarms.fenced(broker_id, broker_epoch)
        self._quorum.end_session(broker_id)
        return True

    def registers(self, request: BrokerRegistrationRequest) -> None:
        """Makes way for a process that takes the place of a dead one at the same addresses."""
        known = self._quorum.loader.image.brokers.get(request.broker_id)
        if known is None or known.incarnation_id == request.incarnation_id or request.broker_id in self._links:
            return
        before = {(name, end.host, end.port) for name, end in known.endpoints.items()}
        if not all(self._is_known_here(end.host) for end in request.listeners):
            return
        if before == {(end.name, end.host, end.port) for end in request.listeners}:
            self.counts.successors += 1
            self._quorum.end_session(request.broker_id)
