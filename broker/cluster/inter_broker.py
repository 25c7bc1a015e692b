"""Where brokers reach each other, and how one says to another that it watches it."""

from barnabas.base.network import Address
from barnabas.broker.network.listeners import is_loopback
from barnabas.replication.metadata.image import BrokerImage

WATCHER = "barnabas-broker-"
"""What the client id of a watching broker begins with; its node id follows."""


def address_of(broker: BrokerImage, listener: str) -> Address | None:
    """Returns where brokers reach this one; of other listeners clients may know more than we do."""
    endpoint = broker.endpoints.get(listener) or next(iter(broker.endpoints.values()), None)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)


def is_known_here(host: str, own_host: str) -> bool:
    """Returns whether a host means the same to this node as to the broker that registered it. A loopback address does
    only where the whole cluster is on one machine, and so where this node has such an address, too."""
    return not is_loopback(host) or is_loopback(own_host)
