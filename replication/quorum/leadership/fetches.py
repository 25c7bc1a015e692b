"""The fetches of other replicas, as the leader answers them.

Rules:
- A fetch whose offset and epoch are in our log acknowledges everything before them, and says that the voter is there. A
  diverging fetch does neither.
- An answer leaves at once if there is something to say: records, a divergence, a snapshot, an error, or a high
  watermark above the one that the follower knows (KIP-1166). Otherwise it is parked.
- Those who will have waited long enough in a moment are answered with the first who has: each append lets all ask again
  together, and as long as nothing happens the leader wakes once for all of them. Nobody else is: voters whose fetches
  are in step lose a silent leader in step, too, and would stand against each other.
"""

from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.quorum.elections import is_of_this_cluster
from barnabas.replication.quorum.exchange.comparison import Valid, compare
from barnabas.replication.quorum.exchange.effects import ReadLog, ReadSnapshot, Respond
from barnabas.replication.quorum.leader import Leader, Progress
from barnabas.replication.quorum.log_view import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch
from barnabas.replication.quorum.messages import LogState, fetch_response, fetch_snapshot_response, partition_of
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.voters import ReplicaKey

_TOGETHER_MS = 20


class ParkedFetch(NamedTuple):
    """A fetch that there is nothing to say to so far."""

    token: Any
    request: Any
    deadline_ms: int


def leader_error(replica: QuorumReplica, epoch: int) -> ErrorCode:
    """Returns why a request to the leader of this epoch cannot be answered here."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(replica.state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if replica.is_shutting_down else ErrorCode.NONE


def handle_fetch(replica: QuorumReplica, token: Any, request: FetchRequest, *, now_ms: int) -> None:
    if not is_of_this_cluster(replica, request):
        error = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, responses=[])
        replica.effects.append(Respond(token, error))
        return
    if (asked := partition_of(request)) is None:
        replica.effects.append(Respond(token, FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=[])))
        return
    if (
        request.max_wait_ms < 0
        or asked.fetch_offset < 0
        or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
    ):
        _refuse(replica, token, ErrorCode.INVALID_REQUEST)
        return
    state = replica.state
    if isinstance(state, Leader) and leader_error(replica, asked.current_leader_epoch) == ErrorCode.NONE:
        found = compare(replica.log, asked.fetch_offset, asked.last_fetched_epoch)
        if isinstance(found, Valid):
            key = ReplicaKey(max(request.replica_id, request.replica_state.replica_id), asked.replica_directory_id)
            _acknowledged(replica, state, key, asked.fetch_offset, now_ms=now_ms)
            if request.max_wait_ms > 0 and _has_no_news(replica, state, asked):
                state.parked.append(ParkedFetch(token, request, now_ms + request.max_wait_ms))
                return
    answer_fetch(replica, token, request)


def _has_no_news(replica: QuorumReplica, state: Leader, asked: Any) -> bool:
    is_at_end: bool = asked.fetch_offset == replica.log.end_offset
    return is_at_end and state.commit.high_watermark <= asked.high_watermark


def answer_fetch(replica: QuorumReplica, token: Any, request: FetchRequest) -> None:
    """Answers with what is in the log now, or with an error."""
    asked = partition_of(request)
    assert asked is not None
    state, error = replica.state, leader_error(replica, asked.current_leader_epoch)
    if error != ErrorCode.NONE or not isinstance(state, Leader):
        _refuse(replica, token, error)
        return
    log = replica.log
    found = compare(log, asked.fetch_offset, asked.last_fetched_epoch)
    response = fetch_response(
        replica.leader, ErrorCode.NONE, LogState(state.commit.high_watermark, log.start_offset), found
    )
    has_records = isinstance(found, Valid) and asked.fetch_offset < log.end_offset
    read = ReadLog(asked.fetch_offset, request.max_bytes) if has_records else None
    replica.effects.append(Respond(token, response, read))


def _refuse(replica: QuorumReplica, token: Any, error: ErrorCode) -> None:
    replica.effects.append(Respond(token, fetch_response(replica.leader, error, LogState())))


def answer_parked(replica: QuorumReplica, state: Leader) -> None:
    """Answers those who waited for records or for the high watermark; all of them if the leadership has ended."""
    waiting, state.parked = state.parked, []
    for fetch in waiting:
        if replica.state is state and _has_no_news(replica, state, partition_of(fetch.request)):
            state.parked.append(fetch)
        else:
            answer_fetch(replica, fetch.token, fetch.request)


def poll_parked(replica: QuorumReplica, state: Leader, *, now_ms: int) -> None:
    """Answers those for whom there is news, and those who have waited as long as they wanted to."""
    answer_parked(replica, state)
    if not any(now_ms >= fetch.deadline_ms for fetch in state.parked):
        return
    for fetch in [fetch for fetch in state.parked if now_ms >= fetch.deadline_ms - _TOGETHER_MS]:
        state.parked.remove(fetch)
        answer_fetch(replica, fetch.token, fetch.request)


def _acknowledged(replica: QuorumReplica, state: Leader, key: ReplicaKey, offset: int, *, now_ms: int) -> None:
    if key.node_id < 0 or key.node_id == replica.node_id:
        return
    replica_key = replica.voters.key_of(key) or key
    progress = state.progress.setdefault(replica_key, Progress())
    progress.fetched(offset, replica.log.end_offset, now_ms=now_ms)
    _voter_is_there(replica, state, key, now_ms=now_ms)
    state.commit.durable(replica_key, offset)


def _voter_is_there(replica: QuorumReplica, state: Leader, key: ReplicaKey, *, now_ms: int) -> None:
    voter = replica.voters.key_of(key)
    if voter is None:
        return
    state.begin_at_ms[key.node_id] = now_ms + replica.config.fetch_timeout_ms // 2
    state.fetched_voters[voter] = None
    needed = replica.voters.majority - replica.is_voter
    if len(state.fetched_voters) >= needed:
        state.fetched_voters.clear()
        replica.reset_check_quorum(state, now_ms)


def handle_fetch_snapshot(replica: QuorumReplica, token: Any, request: FetchSnapshotRequest, *, now_ms: int) -> None:
    if not is_of_this_cluster(replica, request):
        error = FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, topics=[])
        replica.effects.append(Respond(token, error))
        return
    if (asked := partition_of(request)) is None:
        unknown = fetch_snapshot_response(replica.leader, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica.effects.append(Respond(token, unknown))
        return
    snapshot = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    error_code = _snapshot_error(replica, snapshot, asked)
    if error_code != ErrorCode.NONE:
        replica.effects.append(Respond(token, fetch_snapshot_response(replica.leader, error_code)))
        return
    state = replica.state
    assert isinstance(state, Leader)
    key = ReplicaKey(request.replica_id, asked.replica_directory_id)
    _voter_is_there(replica, state, key, now_ms=now_ms)
    size, position = replica.log.snapshots[snapshot], asked.position
    response = fetch_snapshot_response(replica.leader, ErrorCode.NONE, snapshot, size, position)
    replica.effects.append(Respond(token, response, ReadSnapshot(snapshot, position, request.max_bytes)))


def _snapshot_error(replica: QuorumReplica, snapshot: OffsetAndEpoch, asked: Any) -> ErrorCode:
    if (error := leader_error(replica, asked.current_leader_epoch)) != ErrorCode.NONE:
        return error
    size = replica.log.snapshots.get(snapshot)
    if size is None or snapshot == BOOTSTRAP_SNAPSHOT:
        return ErrorCode.SNAPSHOT_NOT_FOUND
    return ErrorCode.NONE if 0 <= asked.position < size else ErrorCode.POSITION_OUT_OF_RANGE
