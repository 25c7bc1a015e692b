"""Which replica a consumer should read (KIP-392): the leader or, where racks count, one in the consumer's own rack."""

from collections.abc import Iterable

from barnabas.protocol.named_tuple import NamedTuple


class ReplicaView(NamedTuple):
    """A follower that has what the consumer asks for."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    last_caught_up_ms: int


def rack_aware_replica(rack_id: str, leaders_rack: str | None, followers: Iterable[ReplicaView]) -> int | None:
    """Returns the follower in this rack that has most, or was last caught up; None if the leader is to be read: it is
    in that rack itself, or nobody is."""
    if not rack_id or leaders_rack == rack_id:
        return None
    near = [each for each in followers if each.rack == rack_id]
    if not near:
        return None
    return max(near, key=lambda each: (each.log_end_offset, each.last_caught_up_ms, each.broker_id)).broker_id
