"""The state of a leader: how far each replica has come, who waits for an answer, and whether a majority is there."""

from typing import TYPE_CHECKING, Any

from barnabas.replication.metadata.commit_rule import CommitRule
from barnabas.replication.quorum.states import NEVER_MS, Role, State
from barnabas.replication.quorum.voters import ReplicaKey, VoterNode

if TYPE_CHECKING:
    from barnabas.replication.quorum.leadership.fetches import ParkedFetch


class Progress:
    """What a leader knows of another replica, voter or observer, from its fetches."""

    __slots__ = ("last_caught_up_ms", "last_fetch_leader_end_offset", "last_fetch_ms")

    def __init__(self) -> None:
        self.last_fetch_ms = -1
        self.last_caught_up_ms = -1
        self.last_fetch_leader_end_offset = -1

    def fetched(self, offset: int, leader_end_offset: int, *, now_ms: int) -> None:
        """Notes a fetch. If it has what the leader had at the fetch before, the replica was caught up at that time."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 < self.last_fetch_leader_end_offset <= offset:
            self.last_caught_up_ms = self.last_fetch_ms
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms


class VoterChange:
    """A change of the voters that is not answered so far. There is one at a time."""

    __slots__ = ("acknowledge_when_committed", "deadline_ms", "end_offset", "is_removal", "probe", "token", "voter")

    def __init__(self, token: Any, *, deadline_ms: int, is_removal: bool, voter: VoterNode | None = None) -> None:
        self.token = token
        self.deadline_ms = deadline_ms
        self.is_removal = is_removal
        self.voter = voter
        self.acknowledge_when_committed = True
        self.probe: Any = None
        """The ApiVersions request to the newcomer that is not answered so far."""
        self.end_offset: int | None = None
        """The end of its record; None as long as it is not appended."""


class Leader(State):
    __slots__ = (
        "begin_at_ms",
        "change",
        "check_quorum_at_ms",
        "commit",
        "epoch_start_offset",
        "fetched_voters",
        "parked",
        "progress",
    )
    role = Role.LEADER

    def __init__(self, epoch: int, node_id: int, *, commit: CommitRule, epoch_start_offset: int) -> None:
        super().__init__(epoch, leader_id=node_id, voted=None, deadline_ms=NEVER_MS)
        self.commit = commit
        self.epoch_start_offset = epoch_start_offset
        self.progress: dict[ReplicaKey, Progress] = {}
        self.fetched_voters: dict[ReplicaKey, None] = {}
        """The voters that have fetched since a majority had done so the last time."""
        self.check_quorum_at_ms = NEVER_MS
        self.begin_at_ms: dict[int, int] = {}
        """When to tell a voter again who leads; a fetch from it puts that off."""
        self.parked: list[ParkedFetch] = []
        self.change: VoterChange | None = None

    def next_deadline_ms(self) -> int:
        waiting = [fetch.deadline_ms for fetch in self.parked]
        if self.change is not None:
            waiting.append(self.change.deadline_ms)
        return min([self.check_quorum_at_ms, *self.begin_at_ms.values(), *waiting])
