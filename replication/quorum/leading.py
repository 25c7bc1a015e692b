"""Leading: what is committed, what time brings, and when a leader has to go.

Rules:
- The leader counts itself as far as it has synced, like everybody else.
- A leader that a majority does not fetch from resigns: it may be the only one that does not know its successor.
What it takes to talk to others is imported when there are others: a sole voter is to start fast.
"""

from barnabas.replication.metadata.commit_rule import UNKNOWN
from barnabas.replication.quorum.leader import Leader
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.states import NEVER_MS, Resigned


def own_durable_end(replica: QuorumReplica) -> int:
    return replica.log.synced_offset


def _commit(replica: QuorumReplica, state: Leader, *, now_ms: int) -> None:
    """Lets the high watermark move as far as the commit rule allows, and does what waits for it."""
    if (own := replica.voters.key_of(replica.me.key)) is not None:
        state.commit.durable(own, own_durable_end(replica))
    if state.commit.high_watermark == UNKNOWN:
        return
    if replica.advance_high_watermark(state.commit.high_watermark) and state.change is not None:
        from barnabas.replication.quorum.leadership import voter_changes

        voter_changes.high_watermark_moved(replica, state)
    if not replica.is_voter and replica.history.last_offset < state.commit.high_watermark:
        resign(replica, now_ms=now_ms)  # its own removal is committed


# ---- what time brings


def poll_leader(replica: QuorumReplica, *, now_ms: int) -> None:
    state = replica.state
    assert isinstance(state, Leader)
    if _majority_is_gone(replica, state, now_ms=now_ms):
        resign(replica, now_ms=now_ms)
        return
    _commit(replica, state, now_ms=now_ms)
    if replica.state is not state:
        return
    if state.change is not None:
        from barnabas.replication.quorum.leadership import voter_changes

        voter_changes.poll(replica, state, now_ms=now_ms)
    if state.parked:
        from barnabas.replication.quorum.leadership import fetches

        fetches.poll_parked(replica, state, now_ms=now_ms)
    if others := replica.voters.others_than(replica.node_id):
        from barnabas.replication.quorum.leadership import epochs

        epochs.tell_beginning(replica, state, others, now_ms=now_ms)


def _majority_is_gone(replica: QuorumReplica, state: Leader, *, now_ms: int) -> bool:
    """Returns whether a majority is gone. A sole voter needs none; it may have become or ceased to be one meanwhile."""
    is_alone = replica.is_voter and len(replica.voters) == 1
    if is_alone != (state.check_quorum_at_ms == NEVER_MS):
        replica.reset_check_quorum(state, now_ms)
    return now_ms >= state.check_quorum_at_ms


# ---- the end


def resign(replica: QuorumReplica, *, now_ms: int) -> None:
    """Stops leading, and names those with the best logs as its successors."""
    state = replica.state
    assert isinstance(state, Leader)
    others = [node.key for node in replica.voters.others_than(replica.node_id)]
    others.sort(key=lambda key: (-state.commit.durable_end(key), key.node_id))
    replica.become_resigned(others, now_ms=now_ms)


def poll_resigned(replica: QuorumReplica, *, now_ms: int) -> None:
    state = replica.state
    assert isinstance(state, Resigned)
    if now_ms >= state.deadline_ms and not replica.is_shutting_down:
        replica.become_unattached(state.epoch + 1, now_ms=now_ms, deadline_ms=now_ms)
        return
    if state.unacknowledged:
        from barnabas.replication.quorum.leadership import epochs

        epochs.tell_end(replica, state, now_ms=now_ms)
