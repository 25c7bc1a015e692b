"""When a voter stands for election: what of an election a sole voter needs, whose own vote wins it."""

from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.states import Candidate, Prospective


def poll_unattached(replica: QuorumReplica, *, now_ms: int) -> None:
    if now_ms >= replica.state.deadline_ms and replica.may_stand:
        stand(replica, now_ms=now_ms)


def stand(replica: QuorumReplica, *, now_ms: int) -> None:
    replica.become_prospective(now_ms=now_ms)
    go_forward(replica, now_ms=now_ms)


def go_forward(replica: QuorumReplica, *, now_ms: int) -> None:
    """Becomes what the votes allow. The vote of a sole voter is its own."""
    if isinstance(replica.state, Prospective) and replica.state.election.is_won:
        replica.become_candidate(now_ms=now_ms)
    if isinstance(replica.state, Candidate) and replica.state.election.is_won:
        replica.become_leader(now_ms=now_ms)
