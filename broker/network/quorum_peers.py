"""The other nodes of the metadata quorum: a client for each, at the address where the quorum says that it is.

A node that is alone imports none of what it takes to talk to others.
"""

from typing import TYPE_CHECKING, Any

from barnabas.base.environment import Environment
from barnabas.base.network import Address as NetworkAddress
from barnabas.base.promise import Promise, failed
from barnabas.broker.network.buffers import Buffers
from barnabas.replication.quorum.voters import Address

if TYPE_CHECKING:
    from barnabas.broker.network.peer_clients import PeerClients


class QuorumPeers:
    def __init__(self, environment: Environment, buffers: Buffers, *, client_id: str) -> None:
        self._environment = environment
        self._buffers = buffers
        self._client_id = client_id
        self._clients: PeerClients | None = None

    def send(self, node_id: int, address: Address | None, request: Any, *, timeout_ms: int) -> Promise[Any]:
        """Returns a promise of the response. It fails if the connection breaks, cannot be made, or is silent for so
        long."""
        from barnabas.broker.network.forwarding import response_class_of
        from barnabas.broker.network.peer_client import PeerUnavailable

        if address is None:
            return failed(PeerUnavailable(f"nobody knows where node {node_id} is", was_sent=False))
        if self._clients is None:
            from barnabas.broker.network.peer_clients import PeerClients

            self._clients = PeerClients(self._environment, self._buffers, client_id=self._client_id)
        client = self._clients.client(node_id, NetworkAddress(address.host, address.port))
        return client.send(request, response_class_of(request), timeout_ms=timeout_ms)

    def is_refused(self, error: Exception) -> bool:
        """Returns whether an error of `send` says that nobody listens at the peer's address."""
        from barnabas.broker.network.peer_client import PeerUnavailable

        return isinstance(error, PeerUnavailable) and error.is_refused

    def close(self) -> None:
        if self._clients is not None:
            self._clients.close()
