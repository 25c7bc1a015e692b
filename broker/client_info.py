"""Who asks, as a request's header and connection tell."""

from typing import NamedTuple


class ClientInfo(NamedTuple):
    client_id: str
    client_host: str
    """Kafka's notation: a slash and the address."""
    api_version: int
