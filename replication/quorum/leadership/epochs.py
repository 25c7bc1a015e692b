"""How a leader tells the other voters of the beginning and of the end of its epoch, and what they answer."""

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.replication.quorum.elections import address_in, node_or_none
from barnabas.replication.quorum.leader import Leader
from barnabas.replication.quorum.messages import begin_quorum_epoch_request, end_quorum_epoch_request, partition_of
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.states import Resigned
from barnabas.replication.quorum.voters import VoterNode


def tell_beginning(replica: QuorumReplica, state: Leader, others: Sequence[VoterNode], *, now_ms: int) -> None:
    """Tells each voter who leads, again and again, until it fetches."""
    for node in others:
        voter_id = node.key.node_id
        is_due = now_ms >= state.begin_at_ms.setdefault(voter_id, now_ms)
        if is_due and replica.connections.is_ready(voter_id, BeginQuorumEpochRequest, now_ms=now_ms):
            state.begin_at_ms[voter_id] = now_ms + replica.config.fetch_timeout_ms // 2
            replica.send(voter_id, begin_quorum_epoch_request(replica.me, node.key, state.epoch))


def receive_begin_quorum_epoch(replica: QuorumReplica, node_id: int, response: Any, *, now_ms: int) -> None:
    _learn_from(replica, node_id, response, now_ms=now_ms)


def _learn_from(replica: QuorumReplica, node_id: int, response: Any, *, now_ms: int) -> bool:
    """Takes over what an answer says of the leader; returns whether it holds no error."""
    answer = None if response.error_code else partition_of(response)
    if answer is None:
        replica.connections.leave_alone(node_id, now_ms=now_ms)
        return False
    address = address_in(response, answer.leader_id)
    replica.learn(answer.leader_epoch, node_or_none(answer.leader_id), address, now_ms=now_ms)
    return bool(answer.error_code == ErrorCode.NONE)


def tell_end(replica: QuorumReplica, state: Resigned, *, now_ms: int) -> None:
    for voter_id in state.unacknowledged:
        if replica.connections.is_ready(voter_id, EndQuorumEpochRequest, now_ms=now_ms):
            replica.send(voter_id, end_quorum_epoch_request(replica.me, state.epoch, state.preferred))


def receive_end_quorum_epoch(replica: QuorumReplica, node_id: int, response: Any, *, now_ms: int) -> None:
    state = replica.state
    if _learn_from(replica, node_id, response, now_ms=now_ms) and isinstance(state, Resigned):
        state.unacknowledged = [voter_id for voter_id in state.unacknowledged if voter_id != node_id]
