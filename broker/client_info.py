"""The client of a request, as the request's header and connection describe it."""

from barnabas.protocol.named_tuple import NamedTuple


class ClientInfo(NamedTuple):
    client_id: str
    client_host: str
    """The address in Kafka's notation, after a slash."""
    api_version: int
