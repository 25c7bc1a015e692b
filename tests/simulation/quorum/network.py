"""Connections between nodes: ordered, late, cut. Inside a connection nothing is lost, repeated or reordered.

- A way that is cut in one direction swallows what is sent. The connection is dropped when a request stays without an
  answer for too long, or when the other side resets it.
- What was sent before the cut still arrives: an old request may be handled after its repetition on a new connection.
- When a process dies its kernel closes its connections, and refuses new ones. Without power there is only silence.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.quorum.cluster import Cluster
    from tests.simulation.quorum.node import Node


class Connection:
    __slots__ = ("client", "is_open", "last_ms", "pending", "server_id", "to")

    def __init__(self, client: "Node", to: int) -> None:
        self.client = client
        self.to = to
        self.server_id = to if to >= 0 else -to
        """A bootstrap server is asked by a negative id: nobody knows yet who answers there."""
        self.is_open = True
        self.last_ms = [0, 0]
        """When the last bytes arrive that were sent to the server, and to the client."""
        self.pending: list[Any] = []


class Network:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._events = cluster.events
        self._open: dict[tuple[int, int], Connection] = {}
        self._deaf: dict[int, None] = {}
        self._mute: dict[int, None] = {}
        self.latency_ms_max = 1
        self.slow_share = 0.0
        self.slow_ms_max = 0

    # ---- faults

    def cut_off(self, node_id: int, *, incoming: bool, outgoing: bool) -> None:
        if incoming:
            self._deaf[node_id] = None
        if outgoing:
            self._mute[node_id] = None

    def rejoin(self, node_id: int) -> None:
        self._deaf.pop(node_id, None)
        self._mute.pop(node_id, None)

    def heal(self) -> None:
        self._deaf.clear()
        self._mute.clear()

    def is_cut(self, sender_id: int, receiver_id: int) -> bool:
        return sender_id in self._mute or receiver_id in self._deaf

    def reset(self, client_id: int, server_id: int) -> None:
        """Closes a connection although both nodes live."""
        if (connection := self._open.get((client_id, server_id))) is not None:
            self._events.tell("the connection from {} to {} is reset", client_id, server_id)
            self._closed(connection)

    def process_died(self, node_id: int, *, silently: bool) -> None:
        for (client_id, to), connection in list(self._open.items()):
            if client_id == node_id:
                connection.is_open = False
                del self._open[client_id, to]
            elif connection.server_id == node_id and not silently and not self.is_cut(node_id, client_id):
                self._events.after(self._latency_ms(), self._closed, connection)

    # ---- messages

    def send(self, client: "Node", to: int, request: Any) -> None:
        connection = self._open.get((client.node_id, to))
        if connection is None:
            connection = self._open[client.node_id, to] = Connection(client, to)
        connection.pending.append(request)
        if not self.is_cut(client.node_id, connection.server_id):
            at_ms = self._arrival_ms(connection, 0)
            self._events.in_order(at_ms, self._request_arrives, connection, request)
        self._events.after(self._cluster.settings.config.response_timeout_ms, self._timed_out, connection, request)

    def respond(self, connection: Connection, request: Any, response: Any) -> None:
        if connection.is_open and not self.is_cut(connection.server_id, connection.client.node_id):
            at_ms = self._arrival_ms(connection, 1)
            self._events.in_order(at_ms, self._response_arrives, connection, request, response)

    def _latency_ms(self) -> int:
        random = self._events.random.random
        if random() < self.slow_share:
            return int(random() * self.slow_ms_max)
        return int(random() * (self.latency_ms_max + 1))

    def _arrival_ms(self, connection: Connection, direction: int) -> int:
        at_ms = max(connection.last_ms[direction], self._events.now_ms + self._latency_ms())
        connection.last_ms[direction] = at_ms
        return at_ms

    def _request_arrives(self, connection: Connection, request: Any) -> None:
        server = self._cluster.nodes.get(connection.server_id)
        if server is None or not server.is_up:
            has_kernel = server is not None and server.has_power
            if has_kernel and not self.is_cut(connection.server_id, connection.client.node_id):
                self._refused(connection)
            return
        server.deliver(server.receive_request, (connection, request), request)

    def _response_arrives(self, connection: Connection, request: Any, response: Any) -> None:
        if connection.is_open and self._was_pending(connection, request):
            client = connection.client
            client.deliver(client.receive_response, connection.to, request, response)

    @staticmethod
    def _was_pending(connection: Connection, request: Any) -> bool:
        for place, pending in enumerate(connection.pending):
            if pending is request:
                del connection.pending[place]
                return True
        return False

    # ---- the end of a connection

    def _timed_out(self, connection: Connection, request: Any) -> None:
        if connection.is_open and any(pending is request for pending in connection.pending):
            self._drop(connection)

    def _refused(self, connection: Connection) -> None:
        if connection.is_open:
            self._drop(connection)
            connection.client.deliver(connection.client.leader_lost, connection.server_id)

    def _closed(self, connection: Connection) -> None:
        """The other side is gone: dial again. Refused means that nobody is there."""
        if not connection.is_open:
            return
        self._drop(connection)
        server = self._cluster.nodes[connection.server_id]
        is_reachable = not self.is_cut(connection.client.node_id, connection.server_id)
        if not server.is_up and server.has_power and is_reachable:
            connection.client.deliver(connection.client.leader_lost, connection.server_id)

    def _drop(self, connection: Connection) -> None:
        connection.is_open = False
        client = connection.client
        if self._open.get((client.node_id, connection.to)) is connection:
            del self._open[client.node_id, connection.to]
        pending, connection.pending = connection.pending, []
        for request in pending:
            client.deliver(client.request_failed, connection.to, request)
