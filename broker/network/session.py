"""A client's session on one connection: the listener, both addresses, and the principal."""

from collections.abc import Callable
from enum import IntEnum

from barnabas.base.principal import ANONYMOUS, Principal


class ListenerType(IntEnum):
    """What a listener is for; it decides which APIs are answered there."""

    BROKER = 1
    """Clients, and other brokers."""
    CONTROLLER = 2
    """Brokers and other controllers that want something of this node as a controller."""


class Session:
    """What every request of a connection has in common. Authentication will set the principal."""

    __slots__ = ("has_hung_up", "listener", "local", "on_hangup", "peer", "principal")

    def __init__(self, *, listener: str, local: tuple[str, int], peer: tuple[str, int]) -> None:
        self.listener = listener
        """The name of the listener that accepted the connection."""
        self.local = local
        """The address that the client dialled."""
        self.peer = peer
        self.principal: Principal = ANONYMOUS
        self.has_hung_up = False
        """Whether the other side has ended the connection."""
        self.on_hangup: Callable[[], None] | None = None
        """Called when the other side ends the connection, never when this one does."""
