"""How a broker asks the controller: with messages that could travel over a wire, whether or not they do.

The promise of a response is kept when the response is true: its content is committed, and a controller in this process
has published it to its own broker. A request that is refused as a whole fails with the KafkaError whose code would be
in the response; NOT_CONTROLLER means that the request should go to another node.
"""

from typing import Any, Protocol

from barnabas.base.principal import ANONYMOUS, Principal
from barnabas.base.promise import Promise
from barnabas.protocol.named_tuple import NamedTuple


class ControllerRequestContext(NamedTuple):
    """What a decision may need besides the message itself: the request's version and its sender."""

    api_version: int
    principal: Principal = ANONYMOUS
    client_id: str | None = None
    client_host: str = ""
    """The address of the client that sent the request; empty for a request of a broker itself."""
    may_forward: bool = True
    """Whether another node may be asked. What comes in on a controller's listener was meant for this node."""


class ControllerChannel(Protocol):
    def submit(self, request: Any, context: ControllerRequestContext) -> Promise[Any]:
        """Returns a promise of the response that belongs to the type of `request`."""
        ...


def own_context(request: Any) -> ControllerRequestContext:
    """Returns the context of a request that a broker sends on its own behalf, in its latest version."""
    return ControllerRequestContext(request.__versions__.stop - 1)
