"""Sends a consumer to the replica that is nearest to it (KIP-392), where `replica.selector.class` says so."""

from barnabas.broker.node import Node
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.replication.replica_selector import ReplicaView, rack_aware_replica


def preferred_replica(
    node: Node, partition: LeaderPartition, *, rack_id: str, fetch_offset: int, listener: str
) -> int | None:
    """Returns the follower that a consumer should read from; None if it should stay with the leader.

    Only an in-sync replica that has the offset is named: one that lags behind would hold its consumers up. And only one
    that is there, at an address of the consumer's listener.
    """
    brokers, in_sync = node.image.brokers, partition.in_sync
    followers = []
    for broker_id, state in in_sync.followers.items():
        broker = brokers.get(broker_id)
        if broker is None or broker.fenced or listener not in broker.endpoints or broker_id not in in_sync.isr:
            continue
        if state.log_start_offset <= fetch_offset <= state.log_end_offset:
            followers.append(ReplicaView(broker_id, broker.rack, state.log_end_offset, state.last_caught_up_ms))
    own = brokers.get(node.node_id)
    return rack_aware_replica(rack_id, own.rack if own is not None else None, followers)
