"""Cores in a given state, and the requests that others send them."""

from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import Effect, Sync
from barnabas.replication.quorum.exchange.effects import Respond, Send
from barnabas.replication.quorum.log_view import Batch, LogView, OffsetAndEpoch
from barnabas.replication.quorum.messages import fetch_request, partition_of, vote_request, vote_response
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.settings import Identity, QuorumConfig
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterHistory, VoterNode, VoterSet

CLUSTER_ID = "cluster"
CONFIG = QuorumConfig()


def key(node_id: int, directory: int = 1) -> ReplicaKey:
    return ReplicaKey(node_id, bytes(15) + bytes((directory * 16 + node_id,)))


def identity(node_id: int, directory: int = 1) -> Identity:
    return Identity(CLUSTER_ID, key(node_id, directory), (Address("CONTROLLER", f"node-{node_id}", 9093),))


def voter_set(*node_ids: int) -> VoterSet:
    return VoterSet([identity(node_id).node for node_id in node_ids])


def static_voters(*node_ids: int) -> VoterSet:
    return VoterSet([VoterNode(ReplicaKey(node_id), identity(node_id).addresses) for node_id in node_ids])


def new_core(
    stored: QuorumStateData | None = None,
    *,
    voters: VoterSet | None = None,
    log: LogView | None = None,
    kraft_version: int = 1,
) -> tuple[QuorumCore, list[Effect]]:
    """Starts node 1 at time 0, in a quorum of three unless told otherwise."""
    history = VoterHistory(voters or voter_set(1, 2, 3), kraft_version)
    replica = QuorumReplica(identity(1), CONFIG, log or LogView(), history, lambda: 0.5, lambda records: records or ())
    core = QuorumCore(replica)
    return core, core.start(stored, now_ms=0)


def leader(voters: VoterSet | None = None, kraft_version: int = 1) -> QuorumCore:
    """Node 1, elected in epoch 1, with its first records synced here and nowhere else."""
    core, effects = new_core(voters=voters, kraft_version=kraft_version)
    now_ms = 0 if core.is_leader else core.next_deadline_ms(0)  # a sole voter leads at once
    effects += core.tick(now_ms=now_ms)
    while requests := [effect for effect in effects if isinstance(effect, Send) and is_vote(effect.request)]:
        effects = [effect for request in requests for effect in _granted(core, request, now_ms)]
        if core.is_leader:
            break
    for effect in effects:
        if isinstance(effect, Sync):
            core.synced(effect.sync, now_ms=now_ms)
    assert core.is_leader
    return core


def is_vote(request: Any) -> bool:
    return isinstance(request, VoteRequest)


def _granted(core: QuorumCore, send: Send, now_ms: int) -> list[Effect]:
    asked = partition_of(send.request)
    assert asked is not None
    response = vote_response(-1, asked.replica_epoch, None, ErrorCode.NONE, True)
    return core.receive_response(send.to, send.request, response, now_ms=now_ms)


def vote(epoch: int, *, end: tuple[int, int] = (0, 0), pre_vote: bool = False, candidate: int = 2) -> VoteRequest:
    return vote_request(identity(candidate), key(1), epoch, OffsetAndEpoch(*end), pre_vote=pre_vote)


def fetch(epoch: int, offset: int, last_epoch: int, *, node_id: int = 2, high_watermark: int = 0) -> FetchRequest:
    return fetch_request(identity(node_id), CONFIG, epoch, OffsetAndEpoch(offset, last_epoch), high_watermark)


def response_to(core: QuorumCore, request: Any, *, now_ms: int = 1) -> Any:
    """Returns the response, which must come at once."""
    effects = core.receive_request("token", request, now_ms=now_ms)
    (response,) = [effect.response for effect in effects if isinstance(effect, Respond)]
    return response


def log_of(*batches: tuple[int, int, int]) -> LogView:
    """A log of batches, each as (base offset, end offset, epoch)."""
    return LogView(batches=[Batch(*batch) for batch in batches])
