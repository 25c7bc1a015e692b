"""Who gets a vote, and what is on the disk before it leaves."""

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.vote import VoteResponse
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import LeaderChanged, Persist
from barnabas.replication.quorum.exchange.effects import Respond, Send
from barnabas.replication.quorum.messages import partition_of, vote_request
from barnabas.replication.quorum.states import Role
from tests.replication.quorum.cores import CONFIG, identity, is_vote, key, leader, log_of, new_core, response_to, vote


def stored(epoch: int, *, leader_id: int = -1, voted: int | None = None) -> QuorumStateData:
    voted_id, directory_id = (-1, bytes(16)) if voted is None else key(voted)
    return QuorumStateData(leader_id=leader_id, leader_epoch=epoch, voted_id=voted_id, voted_directory_id=directory_id)


def core_in(role: Role) -> QuorumCore:
    """Node 1 in epoch 5 with a log that ends at 9 in epoch 4."""
    states = {
        Role.UNATTACHED: stored(5),
        Role.CANDIDATE: stored(5, voted=1),
        Role.FOLLOWER: stored(5, leader_id=3),
        Role.RESIGNED: stored(5, leader_id=1),
        Role.PROSPECTIVE: stored(5),
    }
    core, _ = new_core(states[role], log=log_of((0, 9, 4)))
    if role is Role.PROSPECTIVE:
        core.tick(now_ms=core.next_deadline_ms(CONFIG.retry_backoff_max_ms))
    assert core.replica.state.role is role
    return core


@pytest.mark.parametrize(
    ("role", "pre_vote", "end", "granted"),
    [
        (Role.UNATTACHED, False, (9, 4), True),
        (Role.UNATTACHED, False, (8, 4), False),  # its log is behind
        (Role.UNATTACHED, True, (9, 4), True),
        (Role.CANDIDATE, False, (9, 4), False),  # it has voted for itself
        (Role.CANDIDATE, True, (9, 4), True),
        (Role.FOLLOWER, False, (9, 4), False),  # the epoch has a leader
        (Role.FOLLOWER, True, (9, 4), True),  # which has not answered so far
        (Role.FOLLOWER, True, (8, 4), False),
        (Role.RESIGNED, False, (9, 4), False),  # the epoch had a leader
        (Role.RESIGNED, True, (9, 4), True),
    ],
)
def test_a_vote_is_granted(role: Role, pre_vote: bool, end: tuple[int, int], granted: bool) -> None:
    core = core_in(role)
    answer = partition_of(response_to(core, vote(5, end=end, pre_vote=pre_vote)))
    assert answer is not None
    assert (answer.error_code, answer.vote_granted) == (ErrorCode.NONE, granted)


def test_a_leader_grants_nothing() -> None:
    core = leader()
    for pre_vote in (False, True):
        answer = partition_of(response_to(core, vote(1, end=(99, 0), pre_vote=pre_vote)))
        assert answer is not None
        assert not answer.vote_granted


def test_a_vote_is_durable_before_it_leaves_and_given_once() -> None:
    core = core_in(Role.UNATTACHED)
    first = core.receive_request("first", vote(6, end=(9, 4)), now_ms=1)
    kinds = [type(effect) for effect in first if isinstance(effect, Persist | Respond)]
    assert kinds == [Persist, Persist, Respond]  # the epoch, the vote, the answer
    persisted = [effect.data for effect in first if isinstance(effect, Persist)][-1]
    assert (persisted.leader_epoch, persisted.voted_id) == (6, 2)
    again, _ = new_core(persisted, log=log_of((0, 9, 4)))
    for candidate, granted in ((3, False), (2, True)):  # to the same candidate it may be repeated
        answer = partition_of(response_to(again, vote(6, end=(9, 4), candidate=candidate)))
        assert answer is not None
        assert answer.vote_granted is granted


def test_another_disk_of_the_same_id_does_not_get_the_vote() -> None:
    core, _ = new_core(stored(5, voted=2), log=log_of((0, 9, 4)))
    other = vote_request(identity(2, directory=7), key(1), 5, log_of((0, 9, 4)).end, pre_vote=False)
    answer = partition_of(response_to(core, other))
    assert answer is not None
    assert not answer.vote_granted


def test_a_pre_vote_persists_nothing() -> None:
    core = core_in(Role.UNATTACHED)
    effects = core.receive_request("token", vote(5, end=(9, 4), pre_vote=True), now_ms=1)
    assert not any(isinstance(effect, Persist) for effect in effects)


def test_a_former_leader_does_not_lead_after_a_restart() -> None:
    _, effects = new_core(stored(5, leader_id=1), log=log_of((0, 9, 4)))
    assert [effect for effect in effects if isinstance(effect, LeaderChanged)] == [LeaderChanged(None, 5)]


def test_a_former_leader_goes_on_in_the_next_epoch() -> None:
    core = core_in(Role.RESIGNED)
    core.tick(now_ms=10_000)
    assert core.epoch == 6


def test_nobody_stands_with_records_that_may_be_lost() -> None:
    core, _ = new_core(stored(5), log=log_of((0, 9, 4)))
    core.replica.log.synced_offset = 7
    effects = core.tick(now_ms=10_000)
    assert core.replica.state.role is Role.UNATTACHED
    effects = core.synced(core.replica.log.begin_sync(), now_ms=10_001)
    assert [effect.to for effect in effects if isinstance(effect, Send) and is_vote(effect.request)] == [2, 3]


def test_a_peer_without_pre_votes_makes_a_candidate_at_once() -> None:
    core, effects = new_core()
    effects = core.tick(now_ms=100)
    (send, _) = [effect for effect in effects if isinstance(effect, Send) and is_vote(effect.request)]
    refused = VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, topics=[])
    core.receive_response(send.to, send.request, refused, now_ms=101)
    assert (core.replica.state.role, core.epoch) == (Role.CANDIDATE, 1)


def test_voters_stand_by_rank_when_the_leaders_process_is_dead() -> None:
    core, _ = new_core(stored(5, leader_id=3), log=log_of((0, 9, 4)))
    core.leader_lost(2, now_ms=10)  # not the leader
    assert core.next_deadline_ms(10) == CONFIG.fetch_timeout_ms
    core.leader_lost(3, now_ms=10)
    assert core.next_deadline_ms(10) == 15
    core.tick(now_ms=15)
    assert core.replica.state.role is Role.PROSPECTIVE
