"""The network between the nodes of a cluster, which a test can cut: real sockets on 127.0.0.1, seen through a hub.

Rules:
- A connection between two nodes that are cut off from each other stalls: what was sent stays in the system's buffers
  and arrives when the network has healed. A new one fails.
- Clients are on no side. They reach every node.
- The connections of a process that was killed are reset, and the process opens no others.
"""

import errno
from collections.abc import Callable, Collection, Sequence

from barnabas.base.environment import Report, Workers
from barnabas.base.files import Buffer, FileSlice
from barnabas.base.network import Address, OnEvent, ServerSocket, SocketOptions, Transport
from barnabas.broker.system.loop import Loop
from barnabas.broker.system.sockets import SocketNetwork, SocketTransport

NO_NODE = 0
"""The peer is a client."""


class Hub:
    """Knows which node is where, and which can reach which."""

    def __init__(self, node_of_port: dict[int, int]) -> None:
        """Takes the ports that nodes listen on."""
        self._node_of_port = node_of_port
        self._dialled: dict[tuple[int, int], NodeTransport] = {}
        """The connections that nodes have opened, by their two ports: a client may have one of them in use as well."""
        self._side_of: dict[int, int] = {}
        self._transports: set[NodeTransport] = set()

    def can_reach(self, node_id: int, other_id: int) -> bool:
        return self._side_of.get(node_id) == self._side_of.get(other_id)

    def partition(self, sides: Sequence[Collection[int]]) -> None:
        """Cuts the sides off from each other, and nothing else. Nodes that are on no side form one more."""
        self._side_of = {node_id: number for number, side in enumerate(sides) for node_id in side}
        for transport in self._transports:
            transport.set_cut(not self.can_reach(*transport.link))

    def listening_at(self, address: tuple[str, int]) -> int:
        return self._node_of_port.get(address[1], NO_NODE)

    def dialled(self, transport: "NodeTransport") -> None:
        transport.dialled_from = transport.local[1]
        self._dialled[transport.dialled_from, transport.peer[1]] = transport

    def dialler_of(self, accepted: Transport) -> int:
        transport = self._dialled.get((accepted.peer[1], accepted.local[1]))
        return NO_NODE if transport is None else transport.link[0]

    def opened(self, transport: "NodeTransport") -> None:
        self._transports.add(transport)
        transport.set_cut(not self.can_reach(*transport.link))

    def closed(self, transport: "NodeTransport") -> None:
        self._transports.discard(transport)
        ports = transport.dialled_from, transport.peer[1]
        if self._dialled.get(ports) is transport:
            del self._dialled[ports]


class NodeTransport:
    """One end of a connection. Its link is the pair of nodes; for a client's connection there is none."""

    __slots__ = (
        "_events",
        "_inner",
        "_is_cut",
        "_network",
        "_on_event",
        "dialled_from",
        "link",
        "peer",
        "receive_into",
        "send",
    )

    def __init__(self, inner: SocketTransport, network: "NodeNetwork", peer_id: int) -> None:
        self.link = (network.node_id, peer_id)
        self.peer = inner.peer
        self.send = inner.send
        self.receive_into = inner.receive_into if peer_id == NO_NODE else self._receive_unless_cut
        self.dialled_from = 0
        """The local port, if this node has opened the connection."""
        self._inner = inner
        self._network = network
        self._is_cut = False
        self._events = 0
        self._on_event: OnEvent | None = None
        network.opened(self)

    @property
    def local(self) -> tuple[str, int]:
        return self._inner.local

    def _receive_unless_cut(self, buffer: memoryview) -> int:
        if self._is_cut:
            raise BlockingIOError(errno.EAGAIN, "the network is cut")
        return self._inner.receive_into(buffer)

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        return self._inner.send_buffers(buffers, more=more)

    def send_file(self, records: FileSlice) -> int:
        return self._inner.send_file(records)

    def watch(self, events: int, on_event: OnEvent) -> None:
        self._events, self._on_event = events, on_event
        if not self._is_cut:
            self._inner.watch(events, on_event)

    def set_cut(self, is_cut: bool) -> None:
        if is_cut != self._is_cut:
            self._is_cut = is_cut
            if self._on_event is not None:
                self._inner.watch(0 if is_cut else self._events, self._on_event)

    def close(self) -> None:
        self._network.closed(self)
        self._inner.close()

    def reset(self) -> None:
        self._network.closed(self)
        self._inner.reset()


class UnreachableTransport:
    """A connection that could not be established, because the network is cut."""

    def __init__(self, address: Address, loop: Loop) -> None:
        self.peer: tuple[str, int] = address
        self._loop = loop
        self._watched = 0

    def _fail(self, *_args: object, **_options: object) -> int:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    receive_into = send = send_buffers = send_file = _fail

    @property
    def local(self) -> tuple[str, int]:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    def watch(self, events: int, on_event: OnEvent) -> None:
        if events and not self._watched:
            self._loop.call_soon(self._say_failed, on_event)
        self._watched = events

    def _say_failed(self, on_event: OnEvent) -> None:
        if self._watched:
            on_event(self._watched)

    def close(self) -> None:
        self._watched = 0


class NodeServerSocket:
    """A listener of a node. It tells apart who connects: another node, or a client."""

    def __init__(self, inner: ServerSocket, network: "NodeNetwork", hub: Hub) -> None:
        self._inner = inner
        self._network = network
        self._hub = hub
        self.address = inner.address

    def accept(self, on_transport: Callable[[Transport], None]) -> None:
        def accepted(inner: Transport) -> None:
            assert isinstance(inner, SocketTransport)
            on_transport(NodeTransport(inner, self._network, self._hub.dialler_of(inner)))

        self._inner.accept(accepted)

    def close(self) -> None:
        self._inner.close()


class NodeNetwork:
    """The network as one process of a node has it."""

    def __init__(self, node_id: int, hub: Hub, loop: Loop, workers: Workers, report: Report) -> None:
        self.node_id = node_id
        self._hub = hub
        self._loop = loop
        self._sockets = SocketNetwork(loop, workers, report)
        self._servers: list[NodeServerSocket] = []
        self._transports: set[NodeTransport] = set()
        self._is_dead = False

    def bind(self, host: str, port: int, options: SocketOptions) -> NodeServerSocket:
        server = NodeServerSocket(self._sockets.bind(host, port, options), self, self._hub)
        self._servers.append(server)
        return server

    def connect(self, address: Address) -> Transport:
        peer_id = self._hub.listening_at(address)
        if self._is_dead or (peer_id != NO_NODE and not self._hub.can_reach(self.node_id, peer_id)):
            return UnreachableTransport(address, self._loop)
        inner = self._sockets.connect(address)
        if not isinstance(inner, SocketTransport):
            return inner  # to a host that is known by name: none of this cluster
        transport = NodeTransport(inner, self, peer_id)
        self._hub.dialled(transport)
        return transport

    def opened(self, transport: NodeTransport) -> None:
        self._transports.add(transport)
        if transport.link[1] != NO_NODE:
            self._hub.opened(transport)

    def closed(self, transport: NodeTransport) -> None:
        self._transports.discard(transport)
        self._hub.closed(transport)

    def reset(self) -> None:
        """Resets every connection, and lets nobody connect any more: the process is dead."""
        self._is_dead = True
        for server in self._servers:
            server.close()
        for transport in tuple(self._transports):
            transport.reset()
