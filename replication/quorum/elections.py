"""Elections: who votes for whom, and who stands again (first of all: standing.py).

Rules:
- A vote is given once an epoch, to one replica, by id and directory id, and is on the disk before it is answered.
- A pre-vote (KIP-996) promises nothing and persists nothing. A follower whose leader answers refuses it, so that a node
  which was cut off cannot depose a leader that works.
- When the leader's process has died (its connection was closed, and nobody listens there any more), the voters stand at
  once, one after the other, and grant pre-votes: they are advice, and real votes keep their rules.
- A candidate that all refused waits 50 to 150 ms, and twice as long each time, instead of an election timeout.
"""

from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.messages import (
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    partition_of,
    vote_request,
    vote_response,
)
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.standing import go_forward, stand
from barnabas.replication.quorum.states import (
    Candidate,
    Follower,
    Nominee,
    Prospective,
    Resigned,
    State,
    Unattached,
)
from barnabas.replication.quorum.voters import Address, ReplicaKey


def node_or_none(node_id: int) -> int | None:
    return None if node_id < 0 else node_id


def address_in(response: Any, leader_id: int) -> Address | None:
    for endpoint in response.node_endpoints:
        if endpoint.node_id == leader_id:
            return Address("", endpoint.host, endpoint.port)
    return None


def is_of_this_cluster(replica: QuorumReplica, request: Any) -> bool:
    return request.cluster_id in (None, replica.me.cluster_id)


# ---- votes that others ask for


def handle_vote(replica: QuorumReplica, request: VoteRequest, *, now_ms: int) -> VoteResponse:
    if not is_of_this_cluster(replica, request):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, topics=[])
    if (asked := partition_of(request)) is None:
        return VoteResponse(error_code=ErrorCode.INVALID_REQUEST, topics=[])
    error, granted = _decide_vote(replica, request, asked, now_ms)
    leader_id, epoch, address = replica.leader
    return vote_response(leader_id, epoch, address, error, granted)


def _decide_vote(replica: QuorumReplica, request: VoteRequest, asked: Any, now_ms: int) -> tuple[ErrorCode, bool]:
    end = OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch)
    latest_epoch = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
    if end.offset < 0 or not 0 <= end.epoch <= latest_epoch:
        return ErrorCode.INVALID_REQUEST, False
    if asked.replica_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH, False
    if asked.replica_id < 0:
        return ErrorCode.INVALID_REQUEST, False
    if asked.replica_epoch > replica.epoch:
        replica.become_unattached(asked.replica_epoch, now_ms=now_ms)
    if not _is_meant(replica, request.voter_id, asked.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY, False
    candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
    is_up_to_date = end.is_up_to_date_with(replica.log.end)
    granted = can_grant_vote(replica.state, candidate, is_up_to_date=is_up_to_date, pre_vote=asked.pre_vote)
    if granted and not asked.pre_vote and replica.state.voted is None:
        replica.vote_for(candidate, now_ms=now_ms)
    return ErrorCode.NONE, granted


def _is_meant(replica: QuorumReplica, voter_id: int, directory_id: bytes) -> bool:
    """Returns whether the receiver that a request names is this replica; before KIP-853 requests name none."""
    return voter_id < 0 or ReplicaKey(voter_id, directory_id).matches(replica.me.key)


def can_grant_vote(state: State, candidate: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:
    if isinstance(state, Follower):
        return pre_vote and is_up_to_date and (state.leader_is_gone or not state.has_fetched)
    if isinstance(state, Candidate | Resigned):
        return pre_vote and is_up_to_date
    if not isinstance(state, Unattached | Prospective):
        return False
    if pre_vote:
        return is_up_to_date
    if state.voted is not None:
        return state.voted.matches(candidate)
    return state.leader_id is None and is_up_to_date


# ---- votes that this node asks for


def poll_nominee(replica: QuorumReplica, *, now_ms: int) -> None:
    state = replica.state
    assert isinstance(state, Nominee)
    if not replica.may_stand:
        return
    if now_ms >= state.deadline_ms:
        _begin_again(replica, now_ms=now_ms)
        return
    go_forward(replica, now_ms=now_ms)
    if replica.state is state:
        ask_for_votes(replica, state, now_ms=now_ms)


def _begin_again(replica: QuorumReplica, *, now_ms: int) -> None:
    if isinstance(replica.state, Candidate):
        stand(replica, now_ms=now_ms)
    else:
        _give_up_pre_vote(replica, now_ms=now_ms)


def ask_for_votes(replica: QuorumReplica, state: Nominee, *, now_ms: int) -> None:
    for voter_id in state.election.unanswered:
        node = replica.voters.get(voter_id)
        if node is not None and replica.connections.is_ready(voter_id, VoteRequest, now_ms=now_ms):
            pre_vote = isinstance(state, Prospective)
            replica.send(voter_id, vote_request(replica.me, node.key, state.epoch, replica.log.end, pre_vote=pre_vote))


def receive_vote(replica: QuorumReplica, voter_id: int, response: VoteResponse, *, now_ms: int) -> None:
    state = replica.state
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(state, Prospective):
        replica.become_candidate(now_ms=now_ms)  # it cannot be asked for a pre-vote
        return
    answer = None if response.error_code else partition_of(response)
    if answer is None:
        replica.connections.leave_alone(voter_id, now_ms=now_ms)
        return
    address = address_in(response, answer.leader_id)
    replica.learn(answer.leader_epoch, node_or_none(answer.leader_id), address, now_ms=now_ms)
    if replica.state is not state or not isinstance(state, Nominee):
        return
    granted = answer.error_code == ErrorCode.NONE and answer.vote_granted
    state.election.answers[voter_id] = granted
    if granted:
        go_forward(replica, now_ms=now_ms)
    elif answer.error_code == ErrorCode.NONE and voter_id == answer.leader_id and not _is_gone(state):
        leader_is_heard(replica, voter_id, now_ms=now_ms)
    else:
        _was_refused(replica, state, now_ms=now_ms)


def _is_gone(state: Nominee) -> bool:
    return isinstance(state, Prospective) and state.leader_is_gone


def _was_refused(replica: QuorumReplica, state: Nominee, *, now_ms: int) -> None:
    """Waits for those who are silent, but not for long: a peer that is cut off would make a split vote cost an election
    timeout."""
    if state.election.is_lost and isinstance(state, Prospective):
        _give_up_pre_vote(replica, now_ms=now_ms)
    elif state.election.refusals == 1:
        state.deadline_ms = min(state.deadline_ms, replica.retry_deadline_ms(now_ms))


def leader_is_heard(replica: QuorumReplica, leader_id: int, *, now_ms: int) -> None:
    """Goes back to a leader that was taken for dead and has answered. Kafka waits for the end of the pre-vote, during
    which nobody fetches."""
    state = replica.state
    if isinstance(state, Prospective) and state.leader_id == leader_id:
        replica.become_follower(state.epoch, leader_id, replica.leader_address, now_ms=now_ms)


def _give_up_pre_vote(replica: QuorumReplica, *, now_ms: int) -> None:
    """Goes back to where it came from, in the same epoch: with the leader that others still follow, if there is one."""
    state = replica.state
    assert isinstance(state, Prospective)
    if state.leader_id is None:
        replica.become_unattached(state.epoch, now_ms=now_ms, deadline_ms=replica.retry_deadline_ms(now_ms))
        return
    replica.become_follower(state.epoch, state.leader_id, replica.leader_address, now_ms=now_ms)
    if state.leader_is_gone and isinstance(replica.state, Follower):
        replica.state.leader_is_gone = True
        replica.state.deadline_ms = replica.retry_deadline_ms(now_ms)


# ---- the beginning and the end of an epoch


def handle_begin_quorum_epoch(
    replica: QuorumReplica, request: BeginQuorumEpochRequest, *, now_ms: int
) -> BeginQuorumEpochResponse:
    if not is_of_this_cluster(replica, request):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, topics=[])
    if (asked := partition_of(request)) is None:
        return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST, topics=[])
    error = _error_of_leader(replica, asked)
    if error == ErrorCode.NONE:
        replica.learn(asked.leader_epoch, asked.leader_id, _leader_address(request), now_ms=now_ms)
        leader_is_heard(replica, asked.leader_id, now_ms=now_ms)
        if not _is_meant(replica, request.voter_id, asked.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
    leader_id, epoch, address = replica.leader
    return begin_quorum_epoch_response(leader_id, epoch, address, error)


def _error_of_leader(replica: QuorumReplica, asked: Any) -> ErrorCode:
    if asked.leader_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if asked.leader_id < 0 else ErrorCode.NONE


def _leader_address(request: Any) -> Address | None:
    endpoint = next(iter(request.leader_endpoints), None)
    return None if endpoint is None else Address(endpoint.name, endpoint.host, endpoint.port)


def handle_end_quorum_epoch(
    replica: QuorumReplica, request: EndQuorumEpochRequest, *, now_ms: int
) -> EndQuorumEpochResponse:
    if not is_of_this_cluster(replica, request):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, topics=[])
    if (asked := partition_of(request)) is None:
        return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST, topics=[])
    error = _error_of_leader(replica, asked)
    if error == ErrorCode.NONE:
        replica.learn(asked.leader_epoch, asked.leader_id, _leader_address(request), now_ms=now_ms)
        state = replica.state
        if isinstance(state, Follower) and state.leader_id == asked.leader_id:
            state.leader_is_gone = True
            state.deadline_ms = _deadline_by_preference(replica, asked, now_ms)
    leader_id, epoch, address = replica.leader
    return end_quorum_epoch_response(leader_id, epoch, address, error)


def _deadline_by_preference(replica: QuorumReplica, asked: Any, now_ms: int) -> int:
    """Returns when to stand: the first candidate at once, the others later and later. A leader that comes back after
    its death names none: then the rank decides."""
    preferred = [ReplicaKey(info.candidate_id, info.candidate_directory_id) for info in asked.preferred_candidates]
    preferred = preferred or [ReplicaKey(node_id, ZERO_UUID) for node_id in asked.preferred_successors]
    if not preferred:
        return replica.rank_deadline_ms(now_ms)
    longest_ms = replica.config.election_backoff_max_ms
    position = next((place for place, key in enumerate(preferred) if key.matches(replica.me.key)), len(preferred))
    if position == 0:
        return now_ms
    if position == len(preferred):
        return now_ms + longest_ms
    return now_ms + min(longest_ms, (longest_ms >> (len(preferred) - 1)) << (position - 1))


def leader_lost(replica: QuorumReplica, node_id: int, *, now_ms: int) -> None:
    """Ends the wait for a leader whose process has died."""
    state = replica.state
    if not isinstance(state, Follower | Prospective) or state.leader_id != node_id or state.leader_is_gone:
        return
    state.leader_is_gone = True
    if isinstance(state, Follower):
        state.deadline_ms = min(state.deadline_ms, replica.rank_deadline_ms(now_ms))
