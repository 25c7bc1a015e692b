"""Sees all nodes and their disks, and fails the run as soon as something happens that must not.

Each invariant is a function of its own, with the number that the project's list of invariants gives it.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from barnabas.protocol.messages.vote import VoteRequest
from barnabas.replication.quorum.messages import partition_of
from barnabas.replication.quorum.voters import ReplicaKey
from tests.simulation.quorum.disk import StoredBatch
from tests.simulation.quorum.node import next_state

if TYPE_CHECKING:
    from tests.simulation.quorum.cluster import Cluster
    from tests.simulation.quorum.node import Node, PendingAppend


class InvariantBroken(AssertionError):
    """Names the invariant."""


def check(condition: bool, invariant: str, *facts: object) -> None:
    if not condition:
        raise InvariantBroken(f"{invariant}: {' '.join(map(str, facts))}")


class Oracle:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._leaders: dict[int, tuple[int, int]] = {}
        """Who led each epoch: the node and its life."""
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._epochs: dict[ReplicaKey, int] = {}
        self._records: dict[tuple[int, int], tuple[int, int]] = {}
        """By offset and epoch: the epoch of the record before, and the value."""
        self.log: list[tuple[int, int]] = []
        """What is committed: epoch and value of each offset."""
        self._commit_epochs: list[int] = []
        """In which epoch each of them was committed."""
        self._states = [0]
        """The state after so many records."""
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._checked: dict[tuple[int, int], int] = {}
        self._answered: list[PendingAppend] = []

    # ---- elections

    def after_call(self, node: "Node") -> None:
        core = node.core
        last = self._epochs.get(node.key, 0)
        if core.epoch != last:
            epochs_do_not_go_back(node, last)
            self._epochs[node.key] = core.epoch

    def leads(self, node: "Node", epoch: int) -> None:
        """Hears of each batch that a leader writes: with the first of an epoch it acts as leader."""
        leader = (node.node_id, node.life)
        if self._leaders.get(epoch) != leader:
            one_leader_per_epoch(leader, epoch, self._leaders)
            self._leaders[epoch] = leader
            leader_has_all_that_is_committed(node, self.log[: bisect_left(self._commit_epochs, epoch)])
            leader_has_all_that_was_answered(node, [append for append in self._answered if append.epoch < epoch])

    def sent(self, node: "Node", request: Any) -> None:
        """A candidate that asks for votes has voted for itself."""
        if isinstance(request, VoteRequest):
            asked = partition_of(request)
            assert asked is not None
            if not asked.pre_vote:
                self._voted(node.key, asked.replica_epoch, node.key)

    def responded(self, node: "Node", request: Any, response: Any) -> None:
        if not isinstance(request, VoteRequest):
            return
        asked, answer = partition_of(request), partition_of(response)
        if asked is not None and answer is not None and answer.vote_granted and not asked.pre_vote:
            candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
            self._cluster.events.tell("{} votes for {} in {}", node.node_id, candidate.node_id, asked.replica_epoch)
            self._voted(node.key, asked.replica_epoch, candidate)

    def _voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        before = self._votes.setdefault((voter, epoch), candidate)
        check(before == candidate, "I2 one vote per epoch", voter.node_id, "in", epoch, before, candidate)

    # ---- the log

    def appended(self, node: "Node", batches: list[StoredBatch]) -> None:
        """I3: the same offset and epoch in two logs mean the same log up to there."""
        for stored in batches:
            batch = stored.batch
            before = node.disk.log.epoch_at(batch.base_offset)
            for offset, value in enumerate(stored.values, batch.base_offset):
                known = self._records.setdefault((offset, batch.epoch), (before, value))
                check(known == (before, value), "I3 log matching", node.node_id, offset, batch.epoch, known, value)
                before = batch.epoch

    def committed(self, node: "Node", high_watermark: int) -> None:
        life = (node.node_id, node.life)
        high_watermark_does_not_fall(node, self._high_watermarks.get(life, 0), high_watermark)
        self._high_watermarks[life] = high_watermark
        if high_watermark > len(self.log):
            committed_is_durable_on_a_majority(node, high_watermark, list(self._cluster.nodes.values()))
        self._compare(node, self._checked.get(life, node.disk.log.start.offset), high_watermark)
        self._checked[life] = high_watermark
        self.applied(node)

    def _compare(self, node: "Node", start: int, high_watermark: int) -> None:
        """I4: what was committed once is the same on every node for ever."""
        for stored in node.disk.read(start, 1 << 30):
            for offset, value in enumerate(stored.values, stored.batch.base_offset):
                if start <= offset < high_watermark:
                    record = (stored.batch.epoch, value)
                    if offset == len(self.log):
                        self.log.append(record)
                        self._commit_epochs.append(max([node.core.epoch, *self._commit_epochs[-1:]]))
                        self._states.append(next_state(self._states[-1], value))
                    check(self.log[offset] == record, "I4 committed", node.node_id, offset, self.log[offset], record)

    def applied(self, node: "Node") -> None:
        """I6: the same end offset means the same state, by log or by snapshot."""
        offset = node.applied.offset
        check(offset < len(self._states), "I4 committed", node.node_id, "applied", offset, "of", len(self.log))
        check(node.state == self._states[offset], "I6 equal state", node.node_id, "at", offset)

    def answered(self, append: "PendingAppend") -> None:
        """Hears of everything that a client was told to be done."""
        self._answered.append(append)

    @property
    def answers(self) -> int:
        return len(self._answered)


def one_leader_per_epoch(leader: tuple[int, int], epoch: int, leaders: dict[int, tuple[int, int]]) -> None:
    """I1: one node, in one life of it."""
    check(epoch not in leaders, "I1 one leader per epoch", epoch, leaders.get(epoch), leader)


def epochs_do_not_go_back(node: "Node", last: int) -> None:
    """A process may have known an epoch that its disk does not, and then nobody has heard of it."""
    stored = node.disk.quorum_state
    durable = 0 if stored is None else stored.leader_epoch
    check(node.core.epoch >= durable, "epochs do not go back", node.node_id, node.core.epoch, last, durable)


def leader_has_all_that_is_committed(node: "Node", log: list[tuple[int, int]]) -> None:
    """I7, and Raft's leader completeness: of all that was committed in earlier epochs."""
    image = node.disk.log
    check(image.end_offset >= len(log), "I7 a leader lacks what is committed", node.node_id, image.end_offset, len(log))
    for stored in image.batches:
        for offset, value in enumerate(stored.values, stored.batch.base_offset):
            if offset < len(log):
                check(
                    log[offset] == (stored.batch.epoch, value), "I7 a leader has something else", node.node_id, offset
                )


def leader_has_all_that_was_answered(node: "Node", answered: "list[PendingAppend]") -> None:
    """I7."""
    image = node.disk.log
    for append in answered:
        is_there = append.end_offset < image.start.offset or image.epoch_at(append.end_offset) == append.epoch
        check(is_there, "I7 a leader lacks what was answered", node.node_id, append)


def high_watermark_does_not_fall(node: "Node", before: int, high_watermark: int) -> None:
    check(high_watermark >= before, "the high watermark falls", node.node_id, before, high_watermark)


def committed_is_durable_on_a_majority(node: "Node", high_watermark: int, nodes: "list[Node]") -> None:
    """I5: of the voters in force, as the node that says so knows them. A disk that was lost had what it had."""
    voters = node.core.replica.voters
    epoch = node.disk.log.epoch_at(high_watermark)
    disks = [disk for other in nodes for disk in (other.disk, *other.lost_disks)]
    holders = [
        disk.key.node_id
        for disk in disks
        if voters.key_of(disk.key) is not None and disk.durable.epoch_at(high_watermark) == epoch
    ]
    is_enough = len(holders) >= voters.majority
    check(is_enough, "I5 committed is durable on a majority", node.node_id, high_watermark, voters, holders)
