"""A broker's place in its cluster: it registers at each start, and its first heartbeat unfences it."""

from collections.abc import Callable

from barnabas.base.promise import Promise
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.metadata.image import MetadataImage

NOT_REGISTERED = -1


class BrokerLifecycle:
    __slots__ = ("_controller", "_image", "broker_epoch", "node_id")

    def __init__(self, node_id: int, controller: ControllerChannel, image: Callable[[], MetadataImage]) -> None:
        """Takes `image`, which returns the metadata that this broker has applied."""
        self.node_id = node_id
        self._controller = controller
        self._image = image
        self.broker_epoch = NOT_REGISTERED

    def start(self, request: BrokerRegistrationRequest) -> Promise[None]:
        """Registers the broker. Returns a promise that is kept when the cluster counts it among the active ones."""
        active: Promise[None] = Promise()

        def registered(answer: Promise[BrokerRegistrationResponse]) -> None:
            if answer.error is not None:
                return active.fail(answer.error)
            self.broker_epoch = answer.value.broker_epoch
            heartbeat = self._heartbeat()
            self._controller.submit(heartbeat, own_context(heartbeat)).when_done(unfenced)

        def unfenced(answer: Promise[BrokerHeartbeatResponse]) -> None:
            if answer.error is not None:
                return active.fail(answer.error)
            assert not answer.value.is_fenced, "it has applied its own registration"
            active.resolve(None)

        self._controller.submit(request, own_context(request)).when_done(registered)
        return active

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._image().end_offset - 1,
            want_fence=False,
            want_shut_down=False,
        )
