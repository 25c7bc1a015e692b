"""The metadata quorum as KRaft does it, without a socket, a clock, a disk or a random number of its own.

The shell hands in what has happened, with the time, and carries out the effects that come back, in their order
(effects.py). It keeps one timer, for `next_deadline_ms`. Requests and responses are the protocol's own messages.

Not in use by the broker so far.
"""

from collections.abc import Callable
from typing import Any

from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum import description, elections, following, leading, voter_changes
from barnabas.replication.quorum.effects import Effect, Respond
from barnabas.replication.quorum.leader import Leader
from barnabas.replication.quorum.log_view import LogSync, OffsetAndEpoch
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.states import Role, State
from barnabas.replication.quorum.voters import VoterHistory, VoterSet

_TURNS_MAX = 20
"""One input lets a node pass through a few states at most: a sole voter through four."""


class QuorumCore:
    __slots__ = ("_leadership", "replica")

    def __init__(self, replica: QuorumReplica) -> None:
        self.replica = replica
        self._leadership: Leader | None = None
        """The leadership whose end was not reported to its waiters so far."""

    # ---- inputs

    def start(self, stored: QuorumStateData | None, *, now_ms: int) -> list[Effect]:
        """Begins with what `quorum-state` holds; None if there is no such file."""
        self.replica.start(stored, now_ms=now_ms)
        return self._settle(now_ms)

    def tick(self, *, now_ms: int) -> list[Effect]:
        return self._settle(now_ms)

    def receive_request(self, token: Any, request: Any, *, now_ms: int) -> list[Effect]:
        """Handles a request. One Respond with this token follows, now or later."""
        replica = self.replica
        if (answer := _ANSWERED_AT_ONCE.get(type(request))) is not None:
            response = answer(replica, request, now_ms=now_ms)
            replica.effects.append(Respond(token, response))
        else:
            _ANSWERED_IN_TIME[type(request)](replica, token, request, now_ms=now_ms)
        return self._settle(now_ms)

    def receive_response(self, node_id: int, request: Any, response: Any, *, now_ms: int) -> list[Effect]:
        if self.replica.connections.answered(node_id, request):
            _RESPONSES[type(request)](self.replica, node_id, response, now_ms=now_ms)
        return self._settle(now_ms)

    def request_failed(self, node_id: int, request: Any, *, now_ms: int) -> list[Effect]:
        """Notes that a request got no answer and will get none."""
        if self.replica.connections.failed(node_id, request, now_ms=now_ms) and isinstance(request, ApiVersionsRequest):
            voter_changes.probe_failed(self.replica, node_id)
        return self._settle(now_ms)

    def leader_lost(self, node_id: int, *, now_ms: int) -> list[Effect]:
        """Notes that a node has closed its connection and that nobody listens at its address: its process is dead."""
        elections.leader_lost(self.replica, node_id, now_ms=now_ms)
        return self._settle(now_ms)

    def synced(self, sync: LogSync, *, now_ms: int) -> list[Effect]:
        self.replica.log.synced(sync)
        return self._settle(now_ms)

    def append(self, payload: Any, count: int, *, now_ms: int) -> tuple[int, list[Effect]]:
        """Appends records of the controller, as many as `count` says; returns their end offset. They are committed
        when a high watermark at or above it follows while this node leads the same epoch."""
        end_offset = self.replica.append(count, payload)
        return end_offset, self._settle(now_ms)

    def resign(self, *, now_ms: int) -> list[Effect]:
        """Hands over to the voter with the best log; does nothing if this node does not lead, or is alone."""
        if self.is_leader and self.replica.voters.others_than(self.replica.node_id):
            leading.resign(self.replica, now_ms=now_ms)
        return self._settle(now_ms)

    def shut_down(self, *, now_ms: int) -> list[Effect]:
        """Resigns, and stands no more. The process may end when no voter is `unacknowledged`, or after a while."""
        self.replica.is_shutting_down = True
        return self.resign(now_ms=now_ms)

    # ---- snapshots

    def snapshot_taken(self, snapshot: OffsetAndEpoch, size: int) -> None:
        """Notes a snapshot of this node's own that is durable."""
        assert snapshot.offset <= self.replica.high_watermark, "a snapshot holds what is committed"
        self.replica.log.snapshots[snapshot] = size

    def snapshots_are(self, snapshots: dict[OffsetAndEpoch, int]) -> None:
        """Notes which durable snapshots there are, with their sizes, the oldest first."""
        self.replica.log.snapshots = snapshots

    def log_deleted_before(self, offset: int) -> None:
        self.replica.log.delete_before(offset)
        self.replica.history.forget_before(offset)

    def snapshot_installed(
        self, snapshot: OffsetAndEpoch, size: int, voters: VoterSet, kraft_version: int, *, now_ms: int
    ) -> list[Effect]:
        """Goes on from a snapshot that was fetched, installed and loaded; it names the voters."""
        history = VoterHistory(voters, kraft_version, snapshot.offset - 1)
        following.snapshot_installed(self.replica, snapshot, size, history)
        return self._settle(now_ms)

    # ---- what it is

    @property
    def is_leader(self) -> bool:
        return isinstance(self.replica.state, Leader)

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    def next_deadline_ms(self, now_ms: int) -> int:
        """Returns when `tick` is due, if nothing else happens before."""
        replica = self.replica
        state = replica.state
        deadlines = [state.deadline_ms]
        if isinstance(state, Leader):
            deadlines.append(state.next_deadline_ms())
        if (ready_ms := replica.connections.next_ready_ms(now_ms)) is not None:
            deadlines.append(ready_ms)
        # What is due and was not done waits for something else, a sync for example.
        return min((at_ms for at_ms in deadlines if at_ms > now_ms), default=now_ms + 1_000)

    # ---- turns

    def _settle(self, now_ms: int) -> list[Effect]:
        """Does what is due in each state that the node passes through, until it stays in one."""
        replica = self.replica
        for _ in range(_TURNS_MAX):
            state = replica.state
            self._end_leadership(state)
            _POLLS[state.role](replica, now_ms=now_ms)
            if replica.state is state:
                break
        else:
            raise AssertionError("a node that does not come to rest")
        effects, replica.effects = replica.effects, []
        return effects

    def _end_leadership(self, state: State) -> None:
        """Answers all requests that wait for a leader which leads no more."""
        ended = self._leadership
        if ended is not None and ended is not state:
            voter_changes.leadership_ended(self.replica, ended)
            leading.answer_parked(self.replica, ended)
        self._leadership = state if isinstance(state, Leader) else None


def _poll_unattached(replica: QuorumReplica, *, now_ms: int) -> None:
    elections.poll_unattached(replica, now_ms=now_ms)
    if replica.state.role is Role.UNATTACHED:
        following.look_for_leader(replica, now_ms=now_ms)


_POLLS: dict[Role, Callable[..., None]] = {
    Role.UNATTACHED: _poll_unattached,
    Role.PROSPECTIVE: elections.poll_nominee,
    Role.CANDIDATE: elections.poll_nominee,
    Role.LEADER: leading.poll_leader,
    Role.FOLLOWER: following.poll_follower,
    Role.RESIGNED: leading.poll_resigned,
}

_ANSWERED_AT_ONCE: dict[type, Callable[..., Any]] = {
    VoteRequest: elections.handle_vote,
    BeginQuorumEpochRequest: elections.handle_begin_quorum_epoch,
    EndQuorumEpochRequest: elections.handle_end_quorum_epoch,
    UpdateRaftVoterRequest: voter_changes.handle_update,
    DescribeQuorumRequest: description.handle_describe_quorum,
}

_ANSWERED_IN_TIME: dict[type, Callable[..., None]] = {
    FetchRequest: leading.handle_fetch,
    FetchSnapshotRequest: leading.handle_fetch_snapshot,
    AddRaftVoterRequest: voter_changes.handle_add,
    RemoveRaftVoterRequest: voter_changes.handle_remove,
}

_RESPONSES: dict[type, Callable[..., None]] = {
    VoteRequest: elections.receive_vote,
    BeginQuorumEpochRequest: leading.receive_begin_quorum_epoch,
    EndQuorumEpochRequest: leading.receive_end_quorum_epoch,
    FetchRequest: following.receive_fetch,
    FetchSnapshotRequest: following.receive_fetch_snapshot,
    UpdateRaftVoterRequest: following.receive_update_raft_voter,
    ApiVersionsRequest: voter_changes.receive_api_versions,
}
