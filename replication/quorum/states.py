"""The states of a node of the quorum, by Kafka's names, and the table of what may follow what.

- Unattached: knows an epoch and perhaps its vote in it, and no leader that it could reach.
- Prospective: asks whether it would be elected, before it disturbs anybody with a new epoch (KIP-996).
- Candidate: has begun an epoch and voted for itself.
- Leader: has the votes of a majority.
- Follower: fetches from the leader of its epoch.
- Resigned: was leader of this epoch. It neither writes nor votes in it again, after a restart as well.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from operator import eq, ge, gt
from typing import ClassVar

from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.voters import ReplicaKey

NEVER_MS = 1 << 62


class Role(Enum):
    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


def _is_next(new: int, old: int) -> bool:
    return new == old + 1


# How the epoch changes with the role, the new one compared with the old. A pair that is missing here cannot happen.
TRANSITIONS: dict[tuple[Role, Role], Callable[[int, int], bool]] = {
    (Role.UNATTACHED, Role.UNATTACHED): ge,  # in the same epoch when it votes
    (Role.UNATTACHED, Role.PROSPECTIVE): eq,
    (Role.UNATTACHED, Role.FOLLOWER): ge,
    (Role.PROSPECTIVE, Role.UNATTACHED): ge,
    (Role.PROSPECTIVE, Role.PROSPECTIVE): eq,  # when it votes
    (Role.PROSPECTIVE, Role.CANDIDATE): _is_next,
    (Role.PROSPECTIVE, Role.FOLLOWER): ge,
    (Role.CANDIDATE, Role.UNATTACHED): gt,
    (Role.CANDIDATE, Role.PROSPECTIVE): eq,
    (Role.CANDIDATE, Role.LEADER): eq,
    (Role.CANDIDATE, Role.FOLLOWER): ge,
    (Role.LEADER, Role.UNATTACHED): gt,
    (Role.LEADER, Role.FOLLOWER): gt,
    (Role.LEADER, Role.RESIGNED): eq,
    (Role.FOLLOWER, Role.UNATTACHED): gt,
    (Role.FOLLOWER, Role.PROSPECTIVE): eq,
    (Role.FOLLOWER, Role.FOLLOWER): gt,
    (Role.RESIGNED, Role.UNATTACHED): gt,
    (Role.RESIGNED, Role.FOLLOWER): gt,
}


def is_legal(old: "State", new: "State") -> bool:
    rule = TRANSITIONS.get((old.role, new.role))
    return rule is not None and rule(new.epoch, old.epoch)


class State:
    """What all states have: the three values that `quorum-state` keeps, and when the state ends by itself."""

    __slots__ = ("deadline_ms", "epoch", "leader_id", "voted")
    role: ClassVar[Role]

    def __init__(self, epoch: int, *, leader_id: int | None, voted: ReplicaKey | None, deadline_ms: int) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.voted = voted
        self.deadline_ms = deadline_ms


class Unattached(State):
    __slots__ = ()
    role = Role.UNATTACHED


class Election:
    """Who has granted a vote and who has refused it."""

    __slots__ = ("answers", "voter_ids")

    def __init__(self, voter_ids: Iterable[int], own_id: int) -> None:
        self.voter_ids = tuple(voter_ids)
        self.answers: dict[int, bool] = {own_id: True}

    @property
    def unanswered(self) -> list[int]:
        return [voter_id for voter_id in self.voter_ids if voter_id not in self.answers]

    @property
    def granting(self) -> list[int]:
        return [voter_id for voter_id in self.voter_ids if self.answers.get(voter_id)]

    @property
    def refusals(self) -> int:
        return sum(not granted for granted in self.answers.values())

    @property
    def is_won(self) -> bool:
        return len(self.granting) > len(self.voter_ids) // 2

    @property
    def is_lost(self) -> bool:
        """Returns whether the missing answers cannot win it any more."""
        return len(self.granting) + len(self.unanswered) <= len(self.voter_ids) // 2


class Nominee(State):
    """Prospective or Candidate: asks for votes."""

    __slots__ = ("election",)

    election: Election


class Prospective(Nominee):
    __slots__ = ("leader_is_gone",)
    role = Role.PROSPECTIVE

    leader_is_gone: bool


class Candidate(Nominee):
    __slots__ = ()
    role = Role.CANDIDATE


class SnapshotDownload:
    """A snapshot that is being fetched, and how much of it there is."""

    __slots__ = ("is_installing", "position", "snapshot")

    def __init__(self, snapshot: OffsetAndEpoch) -> None:
        self.snapshot = snapshot
        self.position = 0
        self.is_installing = False


class Follower(State):
    __slots__ = ("download", "has_fetched", "leader_is_gone", "update_voter_at_ms")
    role = Role.FOLLOWER

    has_fetched: bool
    """Whether the leader has answered a fetch: then it lives, and pre-votes are refused."""
    leader_is_gone: bool
    """Whether the leader has resigned, or its process has died. Pre-votes are granted again: otherwise the first
    candidate would be refused by all who do not stand yet (KAFKA-20895)."""
    download: SnapshotDownload | None
    update_voter_at_ms: int


class Resigned(State):
    __slots__ = ("preferred", "unacknowledged")
    role = Role.RESIGNED

    preferred: list[ReplicaKey]
    """The candidates in the order in which they should stand: the best log first."""
    unacknowledged: list[int]
    """The voters that do not know of it so far."""
