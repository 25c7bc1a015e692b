"""Changes of the voters: the checks in their order, and what is in force when."""

from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import Listener as UpdateListener
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import Effect, Sync
from barnabas.replication.quorum.exchange.effects import Respond, Send
from barnabas.replication.quorum.states import Role
from barnabas.replication.quorum.voters import VoterHistory
from tests.replication.quorum.cores import fetch, key, leader, new_core, response_to, static_voters, voter_set


def add(node_id: int, *, listeners: int = 1, ack_when_committed: bool = True) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id="cluster",
        timeout_ms=1_000,
        voter_id=node_id,
        voter_directory_id=key(node_id).directory_id,
        listeners=[Listener(name="CONTROLLER", host=f"node-{node_id}", port=9093)] * listeners,
        ack_when_committed=ack_when_committed,
    )


def remove(node_id: int, directory: int = 1) -> RemoveRaftVoterRequest:
    directory_id = key(node_id, directory).directory_id
    return RemoveRaftVoterRequest(cluster_id="cluster", voter_id=node_id, voter_directory_id=directory_id)


def update(node_id: int, *, port: int = 9093, epoch: int = 1, highest: int = 1) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id="cluster",
        current_leader_epoch=epoch,
        voter_id=node_id,
        voter_directory_id=key(node_id).directory_id,
        listeners=[UpdateListener(name="CONTROLLER", host=f"node-{node_id}", port=port)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=highest),
    )


def settled() -> QuorumCore:
    """A leader whose first records, and with them the voters, are committed, and an observer 4 that has caught up."""
    core = leader()
    core.receive_request("2", fetch(1, 3, 1), now_ms=2)
    core.receive_request("4", fetch(1, 3, 1, node_id=4), now_ms=2)
    assert core.high_watermark == 3
    return core


def supports(lowest: int, highest: int) -> ApiVersionsResponse:
    feature = SupportedFeatureKey(name="kraft.version", min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=0, api_keys=[], supported_features=[feature])


def probed(core: QuorumCore, request: AddRaftVoterRequest, answer: ApiVersionsResponse) -> list[Effect]:
    """Asks to add a voter, and answers the probe of it."""
    effects = core.receive_request("admin", request, now_ms=3)
    (probe,) = [effect for effect in effects if isinstance(effect, Send)]
    assert isinstance(probe.request, ApiVersionsRequest)
    return core.receive_response(probe.to, probe.request, answer, now_ms=4)


def errors(effects: list[Effect]) -> list[ErrorCode]:
    return [
        ErrorCode(effect.response.error_code)
        for effect in effects
        if isinstance(effect, Respond) and effect.token == "admin"
    ]


def test_the_checks_come_in_kafkas_order() -> None:
    follower, _ = new_core()
    assert response_to(follower, add(4)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response_to(leader(), add(4)).error_code == ErrorCode.REQUEST_TIMED_OUT  # the high watermark is not known
    static = leader(static_voters(1, 2, 3), kraft_version=0)
    static.receive_request("2", fetch(1, 1, 1), now_ms=2)
    assert response_to(static, add(4)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response_to(settled(), add(3)).error_code == ErrorCode.DUPLICATE_VOTER
    assert response_to(settled(), add(4, listeners=0)).error_code == ErrorCode.INVALID_REQUEST
    pending = settled()
    pending.receive_request("admin", add(4), now_ms=3)
    assert response_to(pending, add(3)).error_code == ErrorCode.REQUEST_TIMED_OUT  # one change at a time, first of all
    another = add(4)
    another.cluster_id = "another"
    assert response_to(settled(), another).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize(
    ("node_id", "answer", "expected"),
    [
        (4, supports(0, 0), ErrorCode.INVALID_REQUEST),
        (4, ApiVersionsResponse(error_code=35, api_keys=[]), ErrorCode.REQUEST_TIMED_OUT),
        (5, supports(0, 1), ErrorCode.REQUEST_TIMED_OUT),  # it has never fetched
    ],
)
def test_a_newcomer_is_looked_at_before_it_is_added(node_id: int, answer: Any, expected: ErrorCode) -> None:
    core = settled()
    assert errors(probed(core, add(node_id), answer)) == [expected]
    assert core.replica.voters == voter_set(1, 2, 3)


def test_a_voter_is_in_force_when_appended_and_answered_when_committed_by_the_new_set() -> None:
    core = settled()
    effects = probed(core, add(4), supports(0, 1))
    assert core.replica.voters == voter_set(1, 2, 3, 4)
    (sync,) = [effect.sync for effect in effects if isinstance(effect, Sync)]
    effects = core.synced(sync, now_ms=5) + core.receive_request("2", fetch(1, 4, 1), now_ms=6)
    assert errors(effects) == []  # two of four are no majority
    assert errors(core.receive_request("4", fetch(1, 4, 1, node_id=4), now_ms=7)) == [ErrorCode.NONE]


def test_whoever_does_not_want_to_wait_is_answered_at_the_append() -> None:
    assert errors(probed(settled(), add(4, ack_when_committed=False), supports(0, 1))) == [ErrorCode.NONE]


def test_a_change_that_takes_too_long_is_given_up() -> None:
    core = settled()
    probed(core, add(4), supports(0, 1))
    assert errors(core.tick(now_ms=1_003)) == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_newcomer_that_does_not_answer_is_not_added() -> None:
    core = settled()
    effects = core.receive_request("admin", add(4), now_ms=3)
    (probe,) = [effect for effect in effects if isinstance(effect, Send)]
    assert errors(core.request_failed(4, probe.request, now_ms=4)) == [ErrorCode.REQUEST_TIMED_OUT]


def test_only_a_voter_with_its_directory_id_is_removed() -> None:
    assert response_to(settled(), remove(4)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert response_to(settled(), remove(3, directory=7)).error_code == ErrorCode.VOTER_NOT_FOUND


def test_a_leader_that_removes_itself_resigns_after_the_commit_and_does_not_count() -> None:
    core = settled()
    effects = core.receive_request("admin", remove(1), now_ms=3)
    (sync,) = [effect.sync for effect in effects if isinstance(effect, Sync)]
    effects = core.synced(sync, now_ms=4) + core.receive_request("2", fetch(1, 4, 1), now_ms=5)
    assert core.is_leader
    assert core.high_watermark == 3  # of voters 2 and 3 it takes both
    assert errors(effects) == []
    assert errors(core.receive_request("3", fetch(1, 4, 1, node_id=3), now_ms=6)) == [ErrorCode.NONE]
    assert core.replica.state.role is Role.RESIGNED


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (update(2, port=9999), ErrorCode.NONE),
        (update(2, epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (update(2, epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (update(2, highest=0), ErrorCode.INVALID_REQUEST),
        (update(4), ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_a_voter_says_where_it_is_to_be_found(request_: Any, expected: ErrorCode) -> None:
    core = settled()
    response = response_to(core, request_)
    assert response.error_code == expected
    assert (response.current_leader.leader_id, response.current_leader.leader_epoch) == (1, 1)
    moved = core.replica.voters.get(2)
    assert moved is not None
    assert moved.addresses[0].port == (9999 if expected == ErrorCode.NONE else 9093)


def test_the_set_before_is_in_force_again_when_the_log_is_truncated() -> None:
    history = VoterHistory(voter_set(1, 2, 3), 1)
    history.replay(7, voter_set(1, 2, 3, 4).record())
    assert history.last == voter_set(1, 2, 3, 4)
    assert history.at(7)[0] == voter_set(1, 2, 3)
    history.truncate_to(7)
    assert history.last == voter_set(1, 2, 3)
