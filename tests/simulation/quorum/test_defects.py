"""Defects that are planted in the core or in its shell, one at a time: the simulation has to find each of them.

A row says what is broken, which invariants may notice, the profile of the seeds, and within how many of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from barnabas.replication.metadata.commit_rule import CommitRule
from barnabas.replication.quorum import elections, following, leading
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import Effect, Persist
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.messages import vote_request
from barnabas.replication.quorum.settings import QuorumConfig
from tests.simulation.quorum.node import Node, PendingAppend
from tests.simulation.quorum.runs import first_failure

Patch = Callable[[pytest.MonkeyPatch], None]
POWER_CUTS: dict[str, object] = {
    "faults": ("cut_power", "cut_power_of_all", "kill", "isolate"),
    "faults_count": 20,
    "sync_ms_max": 15,
    "voters": 3,
    "kraft_version": 1,
    "duration_ms": 1_500,
}
# Leaders die or are cut off before their first record is everywhere, and followers fetch batch by batch.
LEADERS_DIE: dict[str, object] = {
    "faults": ("hit_new_leaders",),
    "faults_count": 30,
    "voters": 3,
    "observers": 0,
    "append_interval_ms": 10,
    "fetch_batches_max": 1,
    "latency_ms_max": 15,
    "slow_share": 0.0,
    "sync_ms_max": 5,
    "duration_ms": 3_000,
    "config": QuorumConfig(
        election_timeout_ms=60,
        fetch_timeout_ms=150,
        election_backoff_max_ms=50,
        retry_backoff_ms=5,
        retry_backoff_max_ms=40,
        response_timeout_ms=75,
        fetch_max_wait_ms=30,
    ),
}
# Voters and candidates are killed as soon as they have said something, before a slow disk has it.
VOTERS_DIE: dict[str, object] = {
    **LEADERS_DIE,
    "faults": ("hit_voters", "hit_new_leaders"),
    "faults_count": 12,
    "duration_ms": 1_500,
    "voters": 5,
    "append_interval_ms": 100,
    "latency_ms_max": 8,
    "sync_ms_max": 15,
}


def vote_is_sent_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    receive_request = QuorumCore.receive_request

    def receive(core: QuorumCore, token: Any, request: Any, *, now_ms: int) -> list[Effect]:
        effects = receive_request(core, token, request, now_ms=now_ms)
        return sorted(effects, key=lambda effect: isinstance(effect, Persist))

    patch.setattr(QuorumCore, "receive_request", receive)


def leader_counts_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leading, "own_durable_end", lambda replica: replica.log.end_offset)


def follower_fetches_on_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following, "may_fetch", lambda replica: replica.installing is None)


def records_of_older_epochs_are_committed_by_counting(patch: pytest.MonkeyPatch) -> None:
    init = CommitRule.__init__
    patch.setattr(CommitRule, "__init__", lambda rule, voters, _: init(rule, voters, -1))


def logs_are_compared_by_offset_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetAndEpoch, "is_up_to_date_with", lambda end, other: end.offset >= other.offset)


def pre_vote_raises_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def request(*args: Any, pre_vote: bool) -> Any:
        me, voter, epoch, end = args
        return vote_request(me, voter, epoch + pre_vote, end, pre_vote=pre_vote)

    patch.setattr(elections, "vote_request", request)


def answer_leaves_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    append = Node.append

    def append_and_answer(node: Node, values: tuple[int, ...]) -> PendingAppend:
        pending = append(node, values)
        node.cluster.oracle.answered(pending)
        return pending

    patch.setattr(Node, "append", append_and_answer)


def snapshot_id_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    def snapshot_id(node: Node) -> OffsetAndEpoch:
        log, offset = node.disk.log, node.applied.offset - 1
        is_boundary = offset > log.start.offset and any(stored.end_offset == offset for stored in log.batches)
        return OffsetAndEpoch(offset, log.epoch_at(offset)) if is_boundary else node.applied

    patch.setattr(Node, "snapshot_id", snapshot_id)


class Defect(NamedTuple):
    plant: Patch
    found_by: tuple[str, ...]
    profile: dict[str, object]
    seeds: int


DEFECTS = [
    Defect(vote_is_sent_before_it_is_durable, ("I1", "I2"), VOTERS_DIE, 100),
    Defect(leader_counts_what_it_has_not_synced, ("I4", "I5", "I7"), POWER_CUTS, 100),
    Defect(follower_fetches_on_before_its_sync, ("I4", "I5", "I7"), POWER_CUTS, 100),
    Defect(records_of_older_epochs_are_committed_by_counting, ("I4", "I7", "the leader has"), LEADERS_DIE, 300),
    Defect(logs_are_compared_by_offset_only, ("I4", "I7", "the leader has"), LEADERS_DIE, 300),
    Defect(pre_vote_raises_the_epoch, ("L1", "L7"), {}, 100),
    Defect(answer_leaves_before_the_commit, ("I7",), POWER_CUTS, 100),
    Defect(snapshot_id_is_off_by_one, ("I6",), {"faults": ("snapshot", "kill"), "faults_count": 12}, 100),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.plant.__name__)
def test_a_planted_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect.plant(monkeypatch)
    found = first_failure(range(defect.seeds), **defect.profile)
    assert found is not None, f"not found within {defect.seeds} seeds"
    seed, reason = found
    assert reason.startswith(defect.found_by), f"seed {seed}: {reason}"


def test_without_a_defect_the_profiles_pass() -> None:
    for defect in DEFECTS:
        assert first_failure(range(5), **defect.profile) is None
