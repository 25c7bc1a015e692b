"""Adding, removing and moving voters, one at a time (KIP-853).

Rules:
- The checks are Kafka's, in Kafka's order. What cannot be done now is answered with REQUEST_TIMED_OUT.
- A leader changes voters only when it knows the high watermark and the last change is committed: two changes at once
  could leave two majorities that do not meet.
- A newcomer must have caught up within the last hour, and must support the kraft.version.
- A change is in force when it is appended, and answered when the voters that it names commit it. A leader that
  removes itself leads until then and does not count itself.
- Static voters (kraft.version 0) do not change. What they say of themselves is acknowledged and not kept: only the
  upgrade to dynamic voters would need it, and that is not offered.
"""

from typing import Any

from barnabas.base.version import VERSION
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.replication.metadata.commit_rule import UNKNOWN
from barnabas.replication.quorum.elections import is_of_this_cluster
from barnabas.replication.quorum.exchange.effects import Respond, Send
from barnabas.replication.quorum.leader import Leader, VoterChange
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterNode, VoterSet

KRAFT_VERSION_FEATURE = "kraft.version"
CAUGHT_UP_WITHIN_MS = 60 * 60 * 1_000


# ---- the checks that all changes share


def _leader_error(replica: QuorumReplica, request: Any) -> ErrorCode:
    if not is_of_this_cluster(replica, request):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return ErrorCode.NONE if isinstance(replica.state, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _change_error(replica: QuorumReplica, state: Leader) -> ErrorCode:
    """Returns why the voters cannot change now."""
    if state.change is not None or state.commit.high_watermark == UNKNOWN:
        return ErrorCode.REQUEST_TIMED_OUT
    if replica.history.kraft_version == 0:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 <= replica.history.last_offset < state.commit.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.NONE


def _append_voters(replica: QuorumReplica, voters: VoterSet) -> int:
    return replica.append_control([voters.record()])


# ---- adding


def handle_add(replica: QuorumReplica, token: Any, request: AddRaftVoterRequest, *, now_ms: int) -> None:
    error = _leader_error(replica, request)
    if error == ErrorCode.NONE:
        assert isinstance(replica.state, Leader)
        error = _change_error(replica, replica.state)
    if error == ErrorCode.NONE and request.voter_id in replica.voters:
        error = ErrorCode.DUPLICATE_VOTER
    if error == ErrorCode.NONE and not request.listeners:
        error = ErrorCode.INVALID_REQUEST
    if error != ErrorCode.NONE:
        _answer_add(replica, token, error)
        return
    addresses = tuple(Address(listener.name, listener.host, listener.port) for listener in request.listeners)
    voter = VoterNode(ReplicaKey(request.voter_id, request.voter_directory_id), addresses)
    deadline_ms = now_ms + min(request.timeout_ms, replica.config.response_timeout_ms)
    change = VoterChange(token, deadline_ms=deadline_ms, is_removal=False, voter=voter)
    change.acknowledge_when_committed = request.ack_when_committed
    change.probe = ApiVersionsRequest(
        client_software_name="barnabas",
        client_software_version=VERSION.replace("+", "-"),
        cluster_id=replica.me.cluster_id,
        node_id=request.voter_id,
    )
    assert isinstance(replica.state, Leader)
    replica.state.change = change
    replica.connections.sent(voter.key.node_id, change.probe)
    replica.effects.append(Send(voter.key.node_id, addresses[0], change.probe))


def receive_api_versions(replica: QuorumReplica, node_id: int, response: ApiVersionsResponse, *, now_ms: int) -> None:
    """Goes on with a newcomer that has said what it supports."""
    state = replica.state
    change = state.change if isinstance(state, Leader) else None
    if change is None or change.voter is None or change.probe is None or change.voter.key.node_id != node_id:
        return
    assert isinstance(state, Leader)
    change.probe = None
    supported = [
        (feature.min_version, feature.max_version)
        for feature in response.supported_features
        if feature.name == KRAFT_VERSION_FEATURE
    ]
    lowest, highest = supported[0] if supported else (0, 0)
    if response.error_code != ErrorCode.NONE:
        _end_change(replica, state, ErrorCode.REQUEST_TIMED_OUT)
    elif not lowest <= replica.history.kraft_version <= highest:
        _end_change(replica, state, ErrorCode.INVALID_REQUEST)
    elif not _is_caught_up(state, change.voter.key, now_ms=now_ms):
        _end_change(replica, state, ErrorCode.REQUEST_TIMED_OUT)
    else:
        voter = change.voter._replace(kraft_versions=(lowest, highest))
        change.end_offset = _append_voters(replica, replica.voters.with_voter(voter))
        if not change.acknowledge_when_committed:  # KIP-1186
            _answer_add(replica, change.token, ErrorCode.NONE)


def _is_caught_up(state: Leader, key: ReplicaKey, *, now_ms: int) -> bool:
    progress = state.progress.get(key)
    if progress is None or progress.last_caught_up_ms < 0:
        return False
    return progress.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS


def probe_failed(replica: QuorumReplica, node_id: int) -> None:
    state = replica.state
    change = state.change if isinstance(state, Leader) else None
    if change is not None and change.probe is not None and change.voter and change.voter.key.node_id == node_id:
        assert isinstance(state, Leader)
        _end_change(replica, state, ErrorCode.REQUEST_TIMED_OUT)


def _answer_add(replica: QuorumReplica, token: Any, error: ErrorCode) -> None:
    replica.effects.append(Respond(token, AddRaftVoterResponse(error_code=error, error_message=_message(error))))


# ---- removing


def handle_remove(replica: QuorumReplica, token: Any, request: RemoveRaftVoterRequest, *, now_ms: int) -> None:
    error = _leader_error(replica, request)
    if error == ErrorCode.NONE:
        assert isinstance(replica.state, Leader)
        error = _change_error(replica, replica.state)
    voters = replica.voters.without_voter(ReplicaKey(request.voter_id, request.voter_directory_id))
    if error == ErrorCode.NONE and voters is None:
        error = ErrorCode.VOTER_NOT_FOUND
    if error != ErrorCode.NONE or voters is None:
        _answer_remove(replica, token, error)
        return
    state = replica.state
    assert isinstance(state, Leader)
    deadline_ms = now_ms + replica.config.response_timeout_ms
    state.change = VoterChange(token, deadline_ms=deadline_ms, is_removal=True)
    state.change.end_offset = _append_voters(replica, voters)
    state.begin_at_ms.pop(request.voter_id, None)


def _answer_remove(replica: QuorumReplica, token: Any, error: ErrorCode) -> None:
    replica.effects.append(Respond(token, RemoveRaftVoterResponse(error_code=error, error_message=_message(error))))


# ---- moving


def handle_update(replica: QuorumReplica, request: UpdateRaftVoterRequest, *, now_ms: int) -> UpdateRaftVoterResponse:
    error = _update_error(replica, request)
    if error == ErrorCode.NONE and replica.history.kraft_version > 0:
        lowest, highest = _versions(request)
        addresses = tuple(Address(listener.name, listener.host, listener.port) for listener in request.listeners)
        voter = VoterNode(ReplicaKey(request.voter_id, request.voter_directory_id), addresses, (lowest, highest))
        if replica.voters.get(request.voter_id) != voter:
            _append_voters(replica, replica.voters.with_voter(voter))
    leader_id, epoch, address = replica.leader
    host, port = ("", 0) if address is None else (address.host, address.port)
    leader = CurrentLeader(leader_id=leader_id, leader_epoch=epoch, host=host, port=port)
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _versions(request: UpdateRaftVoterRequest) -> tuple[int, int]:
    feature = request.kraft_version_feature
    return feature.min_supported_version, feature.max_supported_version


def _update_error(replica: QuorumReplica, request: UpdateRaftVoterRequest) -> ErrorCode:
    if not is_of_this_cluster(replica, request):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.current_leader_epoch != replica.epoch:
        is_old = request.current_leader_epoch < replica.epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
    state = replica.state
    if not isinstance(state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    error = _change_error(replica, state)
    if error not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        return error
    lowest, highest = _versions(request)
    if not lowest <= replica.history.kraft_version <= highest or not request.listeners:
        return ErrorCode.INVALID_REQUEST
    is_voter = replica.voters.key_of(ReplicaKey(request.voter_id, request.voter_directory_id)) is not None
    return ErrorCode.NONE if is_voter else ErrorCode.VOTER_NOT_FOUND


# ---- the end of a change


def high_watermark_moved(replica: QuorumReplica, state: Leader) -> None:
    change = state.change
    if change is not None and change.end_offset is not None and replica.high_watermark >= change.end_offset:
        _end_change(replica, state, ErrorCode.NONE)


def poll(replica: QuorumReplica, state: Leader, *, now_ms: int) -> None:
    if state.change is not None and now_ms >= state.change.deadline_ms:
        _end_change(replica, state, ErrorCode.REQUEST_TIMED_OUT)


def leadership_ended(replica: QuorumReplica, state: Leader) -> None:
    if state.change is not None:
        _end_change(replica, state, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _end_change(replica: QuorumReplica, state: Leader, error: ErrorCode) -> None:
    change, state.change = state.change, None
    assert change is not None
    if change.is_removal:
        _answer_remove(replica, change.token, error)
    elif change.end_offset is None or change.acknowledge_when_committed:
        _answer_add(replica, change.token, error)


_MESSAGES = {
    ErrorCode.REQUEST_TIMED_OUT: "The voters cannot be changed now, or not in time.",
    ErrorCode.UNSUPPORTED_VERSION: "The voters are static: kraft.version is 0.",
    ErrorCode.DUPLICATE_VOTER: "A voter has this id already.",
    ErrorCode.VOTER_NOT_FOUND: "No other voter would be left, or this is not one.",
    ErrorCode.INVALID_REQUEST: "The newcomer has no listener, or does not support the kraft.version.",
}


def _message(error: ErrorCode) -> str | None:
    return _MESSAGES.get(error)
