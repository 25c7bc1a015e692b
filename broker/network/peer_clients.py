"""A client for each other node that this one talks to, at the address where the node is now."""

from barnabas.base.environment import Environment
from barnabas.base.network import Address
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.peer_client import PeerClient, PeerSettings

# Whoever asks pauses between requests to a node that does not answer: this is as short as such a pause.
_SETTINGS = PeerSettings(reconnect_backoff_ms=20, reconnect_backoff_max_ms=500, connection_setup_timeout_ms=2_000)


class PeerClients:
    def __init__(self, environment: Environment, buffers: Buffers, *, client_id: str) -> None:
        self._environment = environment
        self._buffers = buffers
        self._client_id = client_id
        self._clients: dict[int, PeerClient] = {}

    def client(self, node_id: int, address: Address) -> PeerClient:
        client = self._clients.get(node_id)
        if client is not None and client.address != address:
            client.close()  # it has moved
            client = None
        if client is None:
            client = self._clients[node_id] = PeerClient(
                address, self._environment, self._buffers, client_id=self._client_id, settings=_SETTINGS
            )
        return client

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
