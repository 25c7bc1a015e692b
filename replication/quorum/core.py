"""The metadata quorum as KRaft does it, without a socket, a clock, a disk or a random number of its own.

The shell hands in what has happened, with the time, and carries out the effects that come back, in their order
(effects.py). It keeps one timer, for `next_deadline_ms`. Requests and responses are the protocol's own messages.
"""

from collections.abc import Callable
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum import leading, standing
from barnabas.replication.quorum.effects import Effect
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
        if (answer := _ANSWERED_AT_ONCE.get(request.__api_key__)) is not None:
            from barnabas.replication.quorum.exchange.effects import Respond

            response = answer(replica, request, now_ms=now_ms)
            replica.effects.append(Respond(token, response))
        else:
            _ANSWERED_IN_TIME[request.__api_key__](replica, token, request, now_ms=now_ms)
        return self._settle(now_ms)

    def receive_response(self, node_id: int, request: Any, response: Any, *, now_ms: int) -> list[Effect]:
        if self.replica.connections.answered(node_id, request):
            _RESPONSES[request.__api_key__](self.replica, node_id, response, now_ms=now_ms)
        return self._settle(now_ms)

    def request_failed(self, node_id: int, request: Any, *, now_ms: int) -> list[Effect]:
        """Notes that a request got no answer and will get none."""
        is_probe = request.__api_key__ == ApiKey.API_VERSIONS
        if self.replica.connections.failed(node_id, request, now_ms=now_ms) and is_probe:
            from barnabas.replication.quorum.leadership import voter_changes

            voter_changes.probe_failed(self.replica, node_id)
        return self._settle(now_ms)

    def leader_lost(self, node_id: int, *, now_ms: int) -> list[Effect]:
        """Notes that a node has closed its connection and that nobody listens at its address: its process is dead."""
        from barnabas.replication.quorum import elections

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
        from barnabas.replication.quorum import following

        history = VoterHistory(voters, kraft_version, snapshot.offset - 1)
        following.snapshot_installed(self.replica, snapshot, size, history)
        return self._settle(now_ms)

    def snapshot_refused(self, snapshot: OffsetAndEpoch, why: str, *, now_ms: int) -> list[Effect]:
        """Goes on without a snapshot that was fetched and is damaged."""
        from barnabas.replication.quorum import following

        following.snapshot_refused(self.replica, snapshot, why, now_ms=now_ms)
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
            from barnabas.replication.quorum.leadership import fetches, voter_changes

            voter_changes.leadership_ended(self.replica, ended)
            fetches.answer_parked(self.replica, ended)
        self._leadership = state if isinstance(state, Leader) else None


def _imported(module: str, function: str) -> Callable[..., Any]:
    """Returns a function that is imported when it is first called: a sole voter needs few."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(__import__(f"{__package__}.{module}", fromlist=[function]), function)(*args, **options)

    return call


_look_for_leader = _imported("following", "look_for_leader")


def _poll_unattached(replica: QuorumReplica, *, now_ms: int) -> None:
    standing.poll_unattached(replica, now_ms=now_ms)
    if replica.state.role is Role.UNATTACHED:
        _look_for_leader(replica, now_ms=now_ms)


_POLLS: dict[Role, Callable[..., None]] = {
    Role.UNATTACHED: _poll_unattached,
    Role.PROSPECTIVE: _imported("elections", "poll_nominee"),
    Role.CANDIDATE: _imported("elections", "poll_nominee"),
    Role.LEADER: leading.poll_leader,
    Role.FOLLOWER: _imported("following", "poll_follower"),
    Role.RESIGNED: leading.poll_resigned,
}

# Requests are known by their API, so that none of their modules is imported before the first of them comes.
_ANSWERED_AT_ONCE: dict[int, Callable[..., Any]] = {
    ApiKey.VOTE: _imported("elections", "handle_vote"),
    ApiKey.BEGIN_QUORUM_EPOCH: _imported("elections", "handle_begin_quorum_epoch"),
    ApiKey.END_QUORUM_EPOCH: _imported("elections", "handle_end_quorum_epoch"),
    ApiKey.UPDATE_RAFT_VOTER: _imported("leadership.voter_changes", "handle_update"),
    ApiKey.DESCRIBE_QUORUM: _imported("leadership.description", "handle_describe_quorum"),
}

_ANSWERED_IN_TIME: dict[int, Callable[..., None]] = {
    ApiKey.FETCH: _imported("leadership.fetches", "handle_fetch"),
    ApiKey.FETCH_SNAPSHOT: _imported("leadership.fetches", "handle_fetch_snapshot"),
    ApiKey.ADD_RAFT_VOTER: _imported("leadership.voter_changes", "handle_add"),
    ApiKey.REMOVE_RAFT_VOTER: _imported("leadership.voter_changes", "handle_remove"),
}

_RESPONSES: dict[int, Callable[..., None]] = {
    ApiKey.VOTE: _imported("elections", "receive_vote"),
    ApiKey.BEGIN_QUORUM_EPOCH: _imported("leadership.epochs", "receive_begin_quorum_epoch"),
    ApiKey.END_QUORUM_EPOCH: _imported("leadership.epochs", "receive_end_quorum_epoch"),
    ApiKey.FETCH: _imported("following", "receive_fetch"),
    ApiKey.FETCH_SNAPSHOT: _imported("following", "receive_fetch_snapshot"),
    ApiKey.UPDATE_RAFT_VOTER: _imported("following", "receive_update_raft_voter"),
    ApiKey.API_VERSIONS: _imported("leadership.voter_changes", "receive_api_versions"),
}
