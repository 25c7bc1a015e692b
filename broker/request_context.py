"""What a handler knows about a request besides its message."""

from barnabas.broker.client_info import ClientInfo
from barnabas.broker.network.session import ListenerType, Session
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.controller.channel import ControllerRequestContext


class RequestContext(NamedTuple):
    """What a request's header and connection say."""

    api_version: int
    client_id: str | None
    session: Session
    listener_type: ListenerType

    @property
    def client(self) -> ClientInfo:
        return ClientInfo(self.client_id or "", f"/{self.session.peer[0]}", self.api_version)

    @property
    def for_controller(self) -> ControllerRequestContext:
        return ControllerRequestContext(
            self.api_version,
            self.session.principal,
            self.client_id,
            self.session.peer[0],
            may_forward=self.listener_type is ListenerType.BROKER,
        )
