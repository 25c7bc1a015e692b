"""The network between simulated machines: who listens where, how connections come about, and what goes wrong.

A connect takes a round trip. Where nobody listens it is refused; where the machine is off, or one of the two ways is
cut, the request is sent again after 1 s, 3 s, 7 s ..., and after two minutes the connect has timed out. As in TCP a
connection stands for the client before the server's process has accepted it.
"""

import errno
import os
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from barnabas.base.network import Address, SocketOptions, Transport
from tests.simulation.loop import SimulatedLoop
from tests.simulation.net.paths import Host, Path
from tests.simulation.net.streams import Connection, Stream
from tests.simulation.net.transport import SimulatedTransport
from tests.simulation.scheduler import MS, SECOND, Scheduler, random_of

_FIRST_RETRY_US = SECOND
_CONNECT_TIMEOUT_US = 127 * SECOND
_ANY_ADDRESS = ("", "0.0.0.0", "::")


class Latency(NamedTuple):
    latency_ms: float = 0.1
    jitter_ms: float = 0.4


LOCAL = Latency()


class SimulatedNetwork:
    """All machines, all paths, all connections."""

    def __init__(self, scheduler: Scheduler, latency: Latency = LOCAL) -> None:
        self.scheduler = scheduler
        self.hosts: dict[str, Host] = {}
        self.listeners: dict[tuple[str, int], SimulatedServerSocket] = {}
        self.connections: dict[int, Connection] = {}
        """Those that stand."""
        self._latency = latency
        self._paths: dict[tuple[str, str], Path] = {}
        self._random = random_of(scheduler.seed, "network", "paths")
        self._connects = 0

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            number = len(self.hosts) + 1
            self.hosts[name] = Host(name, f"10.0.{number // 256}.{number % 256}")
        return self.hosts[name]

    def path(self, source: str, target: str) -> Path:
        path = self._paths.get((source, target))
        if path is None:
            path = self._paths[source, target] = Path(*self._latency)
        return path

    # ---- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one to the other; the way back is another one."""
        self.scheduler.trace.tell("network", "nothing gets from {} to {}", source, target)
        self.path(source, target).cut()

    def refuse(self, source: str, target: str) -> None:
        """Connections that stand go on; a new one is refused on its way."""
        self.path(source, target).refuses = True

    def slow_down(self, source: str, target: str, *, connect_ms: float = 0, slower_ms: float = 0) -> None:
        """A new connection takes longer, or all that is sent does."""
        path = self.path(source, target)
        path.connect_ms, path.slower_ms = connect_ms, slower_ms

    def heal(self, source: str, target: str) -> None:
        self.scheduler.trace.tell("network", "the way from {} to {} is open again", source, target)
        self.path(source, target).heal(self.scheduler, self._random)

    def isolate(self, name: str) -> None:
        for other in self.hosts:
            if other != name:
                self.cut(name, other)
                self.cut(other, name)

    def heal_all(self) -> None:
        self.scheduler.trace.tell("network", "all ways are open again")
        for path in self._paths.values():
            path.heal(self.scheduler, self._random)

    def were_connected(self, one: str, other: str) -> bool:
        """Returns whether the ways between them have been well for so long that whoever dialled got through."""
        since_us = self.scheduler.now_us - _FIRST_RETRY_US - SECOND
        return all(path.was_well_since(since_us) for path in (self.path(one, other), self.path(other, one)))

    # ---- connections

    def connect(self, process: "ProcessNetwork", address: Address) -> SimulatedTransport:
        host = process.host
        self._connects += 1
        random = random_of(self.scheduler.seed, f"connection {self._connects}", "stream")
        there, back = self.path(host.name, address.host), self.path(address.host, host.name)
        connection = Connection(self.scheduler, self._connects, (there, back), random)
        local = (host.name, host.free_port())
        client = self._transport(process, (local, (address.host, address.port)), connection)
        client.is_connecting = True
        _attach(client, outgoing=connection.to_server, incoming=connection.to_client)
        _Connect(self, connection, client, random).send_request()
        return client

    def _transport(
        self, process: "ProcessNetwork", addresses: tuple[tuple[str, int], tuple[str, int]], connection: Connection
    ) -> SimulatedTransport:
        def on_gone(transport: SimulatedTransport, how: str) -> None:
            del process.transports[transport]
            self.connections.pop(connection.number, None)
            peer = connection.ends[0].local if transport is not connection.ends[0] else transport.peer
            self.scheduler.trace.tell(process.host.name, "{} the connection with {}:{}", how, *peer)
            if not connection.is_held:
                connection.leave_paths()

        transport = SimulatedTransport(process.loop, process.host, addresses, on_gone)
        process.transports[transport] = None
        connection.ends.append(transport)
        return transport

    def established(self, connection: Connection, server: "SimulatedServerSocket", client: SimulatedTransport) -> None:
        seen_as = (client.host.ip, client.local[1])
        transport = self._transport(server.process, (client.peer, seen_as), connection)
        _attach(transport, outgoing=connection.to_client, incoming=connection.to_server)
        self.connections[connection.number] = connection
        connection.enter_paths()
        self.scheduler.trace.tell(server.process.host.name, "has a connection from {}:{}", *client.local)
        server.enqueue(transport)


def _attach(transport: SimulatedTransport, *, outgoing: Stream, incoming: Stream) -> None:
    transport.outgoing, transport.incoming = outgoing, incoming
    outgoing.sender = transport
    incoming.receiver = transport


class _Connect:
    """The handshake of one connection."""

    def __init__(
        self, network: SimulatedNetwork, connection: Connection, client: SimulatedTransport, random: Random
    ) -> None:
        self._network = network
        self._scheduler = network.scheduler
        self._connection = connection
        self._client = client
        self._random = random
        self._there = network.path(client.local[0], client.peer[0])
        self._back = network.path(client.peer[0], client.local[0])
        self._began_us = self._scheduler.now_us
        self._retry_us = _FIRST_RETRY_US

    def send_request(self) -> None:
        now_us = self._scheduler.now_us
        if self._client.is_gone:
            return
        if now_us - self._began_us >= _CONNECT_TIMEOUT_US:
            return self._client.break_off(errno.ETIMEDOUT, forgets_unread=False)
        delay_us = self._there.latency_us(self._random) + int(self._there.connect_ms * MS)
        self._scheduler.at(now_us + delay_us, self._random, self._arrive)

    def _arrive(self) -> None:
        target = self._network.host(self._client.peer[0])
        if self._there.is_cut or self._back.is_cut or not target.is_up:
            self._scheduler.at(self._scheduler.now_us + self._retry_us, self._random, self.send_request)
            self._retry_us *= 2
            return
        server = self._network.listeners.get(self._client.peer)
        back_us = self._scheduler.now_us + self._back.latency_us(self._random)
        if server is None or not server.is_accepting or self._there.refuses:
            self._scheduler.at(back_us, self._random, self._refused)
        elif not self._client.is_gone:
            self._network.established(self._connection, server, self._client)
            self._scheduler.at(back_us, self._random, self._client.connected)

    def _refused(self) -> None:
        self._client.break_off(errno.ECONNREFUSED, forgets_unread=False)


class SimulatedServerSocket:
    def __init__(self, network: SimulatedNetwork, process: "ProcessNetwork", port: int) -> None:
        self.address = (process.host.name, port)
        self.process = process
        self.is_accepting = False
        self._network = network
        self._on_transport: Callable[[Transport], None] | None = None
        self._accepted: list[SimulatedTransport] = []
        """Established by the kernel, not handed to the process so far."""
        network.listeners[self.address] = self

    def accept(self, on_transport: Callable[[Transport], None]) -> None:
        self._on_transport = on_transport
        self.is_accepting = True

    def enqueue(self, transport: SimulatedTransport) -> None:
        self._accepted.append(transport)
        self.process.loop.may_be_ready(self)

    def ready_events(self) -> int:
        return len(self._accepted)

    def on_ready(self, events: int) -> None:
        waiting, self._accepted = self._accepted, []
        for transport in waiting:
            assert self._on_transport is not None
            self._on_transport(transport)

    def close(self) -> None:
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]
        self.is_accepting = False
        self.process.loop.forget(self)
        for transport in self._accepted:
            transport.killed(resets=True)
        self._accepted.clear()


class ProcessNetwork:
    """The network as one process sees it: a `Network`."""

    def __init__(self, network: SimulatedNetwork, loop: SimulatedLoop, host: Host) -> None:
        self.loop = loop
        self.host = host
        self.transports: dict[SimulatedTransport, None] = {}
        self._network = network
        self._sockets: list[SimulatedServerSocket] = []

    def bind(self, host: str, port: int, options: SocketOptions) -> SimulatedServerSocket:
        if host not in (*_ANY_ADDRESS, self.host.name):
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        port = port or self.host.free_port()
        if (self.host.name, port) in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = SimulatedServerSocket(self._network, self, port)
        self._sockets.append(server)
        return server

    def connect(self, address: Address) -> SimulatedTransport:
        return self._network.connect(self, address)

    def die(self, random: Random, *, is_power_cut: bool) -> None:
        """Ends all of it as the kernel does for a process that was killed, or as nobody does without power."""
        for transport in list(self.transports):
            if is_power_cut:
                transport.vanish()
            else:
                transport.killed(resets=random.random() < 0.5)
        for server in self._sockets:
            server.close()
