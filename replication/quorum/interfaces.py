"""What the driver of the quorum is given: the other nodes, and somebody who wants to know. Only types."""

from typing import Any, Protocol

from barnabas.base.promise import Promise
from barnabas.replication.quorum.voters import Address


class Peers(Protocol):
    """The other nodes of the quorum, behind their connections."""

    def send(self, node_id: int, address: Address | None, request: Any, *, timeout_ms: int) -> Promise[Any]:
        """Returns a promise of the response. It fails if the connection breaks, cannot be made, or is silent for so
        long."""
        ...

    def is_refused(self, error: Exception) -> bool:
        """Returns whether an error of `send` says that nobody listens at the peer's address."""
        ...


class QuorumListener(Protocol):
    """What the controller of this node hears of the quorum."""

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """A new leader may decide once a record of its own epoch is committed: then it has seen everything."""
        ...

    def on_commit(self, high_watermark: int) -> None:
        """What lies before the high watermark is committed, and in the loader."""
        ...

    def on_failure(self, error: Exception) -> None:
        """The disk has failed, and this node takes no more part."""
        ...
