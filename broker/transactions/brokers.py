"""The other brokers, as this one asks them about transactions."""

from collections.abc import Callable

from barnabas.base.environment import Environment
from barnabas.broker.cluster.inter_broker import address_of
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.peer_client import PeerClient
from barnabas.broker.network.peer_clients import PeerClients
from barnabas.replication.metadata.image import MetadataImage

REQUEST_TIMEOUT_MS = 30_000


class Brokers:
    """A broker that is alone makes no connection, and nothing of this costs it more than this object."""

    def __init__(
        self,
        environment: Environment,
        buffers: Buffers,
        image: Callable[[], MetadataImage],
        *,
        node_id: int,
        listener: str,
    ) -> None:
        """Takes the name of the listener at which brokers reach each other."""
        self.node_id = node_id
        self.environment = environment
        self.clock = environment.clock
        self.image = image
        self._buffers = buffers
        self._listener = listener

    def clients(self, purpose: str) -> PeerClients:
        """Returns connections of their own: an answer that has to wait must not hold up those to other questions."""
        client_id = f"broker-{self.node_id}-{purpose}"
        return PeerClients(self.environment, self._buffers, client_id=client_id)

    def client(self, clients: PeerClients, broker_id: int) -> PeerClient | None:
        """Returns the client for this broker; None while nobody knows where it is."""
        broker = self.image().brokers.get(broker_id)
        address = None if broker is None else address_of(broker, self._listener)
        return None if address is None else clients.client(broker_id, address)
