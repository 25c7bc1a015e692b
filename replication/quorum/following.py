"""Replication as a follower sees it: fetch, append, sync, and only then fetch on.

Rules:
- The offset of a fetch says that everything before it is on this disk. So the next fetch waits for the sync, of voters
  and of observers, which may become voters.
- Where the leader's log parts from ours, ours is cut. Below the high watermark that must not happen: the log would not
  be the one that was committed, and the node stops.
- What is damaged is not taken, and asked for again after a pause: another leader may have it whole. A leader that sends
  nothing else is as good as silent, and does not keep its voters from electing one.
- A diverging answer says nothing about what is committed here: its high watermark is not taken.
- A node without a leader, or an observer whose leader does not answer, asks any voter; the answer names the leader.
"""

from typing import Any

from barnabas.protocol.errors import CorruptMessage, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.replication.quorum.effects import Sync
from barnabas.replication.quorum.elections import address_in, node_or_none
from barnabas.replication.quorum.exchange.effects import (
    AppendFetched,
    InstallSnapshot,
    Truncate,
    Unusable,
    WriteSnapshot,
)
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.messages import fetch_request, fetch_snapshot_request, partition_of
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.standing import stand
from barnabas.replication.quorum.states import Follower, SnapshotDownload
from barnabas.replication.quorum.voters import VoterHistory

# ---- asking


def poll_follower(replica: QuorumReplica, *, now_ms: int) -> None:
    state = replica.state
    assert isinstance(state, Follower)
    assert state.leader_id is not None
    if now_ms >= state.deadline_ms and replica.is_electable:
        if replica.may_stand:
            stand(replica, now_ms=now_ms)
        return
    if now_ms >= state.update_voter_at_ms and _ask_to_update(replica, state, now_ms=now_ms):
        return
    if now_ms >= state.deadline_ms:
        look_for_leader(replica, now_ms=now_ms)
    else:
        _fetch_from_leader(replica, state, state.leader_id, now_ms=now_ms)


def _fetch_from_leader(replica: QuorumReplica, state: Follower, leader_id: int, *, now_ms: int) -> None:
    if state.download is None:
        _fetch_from(replica, leader_id, now_ms=now_ms)
    elif replica.installing is None and replica.connections.is_ready(leader_id, FetchSnapshotRequest, now_ms=now_ms):
        snapshot, position = state.download.snapshot, state.download.position
        replica.send(leader_id, fetch_snapshot_request(replica.me, replica.config, state.epoch, snapshot, position))


def _fetch_from(replica: QuorumReplica, node_id: int, *, now_ms: int) -> None:
    is_ready = replica.connections.is_ready(node_id, FetchRequest, now_ms=now_ms)
    if is_ready and may_fetch(replica):
        end, high_watermark = replica.log.end, replica.high_watermark
        replica.send(node_id, fetch_request(replica.me, replica.config, replica.epoch, end, high_watermark))


def may_fetch(replica: QuorumReplica) -> bool:
    return replica.log.is_synced and replica.installing is None


def look_for_leader(replica: QuorumReplica, *, now_ms: int) -> None:
    """Asks any one voter, or a node that the configuration names if no voter is known."""
    if replica.connections.is_waiting_for(FetchRequest):
        return
    known = replica.voters.others_than(replica.node_id) or replica.me.bootstrap
    node_ids = [node.key.node_id for node in known]
    leader_id = replica.state.leader_id
    if leader_id is not None and leader_id not in node_ids:
        node_ids.append(leader_id)  # it may answer again
    ready = [node_id for node_id in node_ids if replica.connections.is_ready(node_id, FetchRequest, now_ms=now_ms)]
    if ready:
        _fetch_from(replica, ready[int(replica.random() * len(ready))], now_ms=now_ms)


def _ask_to_update(replica: QuorumReplica, state: Follower, *, now_ms: int) -> bool:
    """Tells the leader where this voter is to be found, if the log says otherwise; looks once per fetch timeout."""
    assert state.leader_id is not None
    state.update_voter_at_ms = now_ms + replica.config.fetch_timeout_ms
    known = replica.voters.get(replica.node_id) if replica.is_voter else None
    if replica.history.kraft_version == 0 or known is None or known == replica.me.node:
        return False
    lowest, highest = replica.me.kraft_versions
    request = UpdateRaftVoterRequest(
        cluster_id=replica.me.cluster_id,
        current_leader_epoch=state.epoch,
        voter_id=replica.node_id,
        voter_directory_id=replica.me.key.directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in replica.me.addresses],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
    )
    if not replica.connections.is_ready(state.leader_id, UpdateRaftVoterRequest, now_ms=now_ms):
        return False
    replica.send(state.leader_id, request)
    return True


def receive_update_raft_voter(
    replica: QuorumReplica, node_id: int, response: UpdateRaftVoterResponse, *, now_ms: int
) -> None:
    leader = response.current_leader
    replica.learn(leader.leader_epoch, node_or_none(leader.leader_id), None, now_ms=now_ms)


# ---- what the leader answers


def receive_fetch(replica: QuorumReplica, node_id: int, response: FetchResponse, *, now_ms: int) -> None:
    answer = None if response.error_code else partition_of(response)
    if answer is None:
        replica.connections.leave_alone(node_id, now_ms=now_ms)
        return
    state = _followed(replica, node_id, response, answer, now_ms=now_ms)
    if state is None:
        return
    if answer.diverging_epoch.epoch >= 0:
        _truncate(replica, OffsetAndEpoch(answer.diverging_epoch.end_offset, answer.diverging_epoch.epoch))
    elif answer.snapshot_id.epoch >= 0 and answer.snapshot_id.end_offset >= 0:
        state.download = SnapshotDownload(OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch))
    else:
        try:
            _append(replica, answer.records)
        except CorruptMessage as error:
            _could_not_use(replica, node_id, error.message, now_ms=now_ms)
            return
        replica.advance_high_watermark(min(answer.high_watermark, replica.log.end_offset))
    _leader_lives(replica, state, now_ms=now_ms)


def _followed(replica: QuorumReplica, node_id: int, response: Any, answer: Any, *, now_ms: int) -> Follower | None:
    """Takes over what an answer says of the leader; returns the state if the answer is the leader's and good."""
    leader = answer.current_leader
    address = address_in(response, leader.leader_id)
    replica.learn(leader.leader_epoch, node_or_none(leader.leader_id), address, now_ms=now_ms)
    state = replica.state
    is_from_leader = isinstance(state, Follower) and (state.leader_id, state.epoch) == (node_id, leader.leader_epoch)
    if answer.error_code != ErrorCode.NONE or not is_from_leader:
        replica.connections.leave_alone(node_id, now_ms=now_ms)
        return None
    assert isinstance(state, Follower)
    return state


def _leader_lives(replica: QuorumReplica, state: Follower, *, now_ms: int) -> None:
    state.has_fetched = True
    state.leader_is_gone = False
    state.deadline_ms = now_ms + replica.config.fetch_timeout_ms
    replica.election_attempts = 0


def _could_not_use(replica: QuorumReplica, node_id: int, why: str, *, now_ms: int) -> None:
    replica.effects.append(Unusable(node_id, why))
    replica.connections.rest(node_id, now_ms=now_ms)


def _append(replica: QuorumReplica, records: Any) -> None:
    """Raises CorruptMessage before anything is taken over."""
    batches = replica.read_batches(records)
    if not batches and records:
        raise CorruptMessage("no whole batch is in what the leader has sent")
    if not batches:
        return
    for batch in batches:
        replica.log.append(batch)
        replica.replay_control(batch)
    replica.effects += [AppendFetched(records, replica.log.end_offset), Sync(replica.log.begin_sync())]


def _truncate(replica: QuorumReplica, diverging: OffsetAndEpoch) -> None:
    end_offset = replica.log.truncation_point(diverging)
    assert end_offset >= replica.high_watermark, (
        f"the leader has another record at {end_offset}, which is committed up to {replica.high_watermark} here"
    )
    replica.log.truncate_to(end_offset)
    replica.history.truncate_to(end_offset)
    replica.effects.append(Truncate(end_offset))
    if not replica.log.is_synced:
        replica.effects.append(Sync(replica.log.begin_sync()))


# ---- snapshots


def receive_fetch_snapshot(
    replica: QuorumReplica, node_id: int, response: FetchSnapshotResponse, *, now_ms: int
) -> None:
    answer = None if response.error_code else partition_of(response)
    if answer is None:
        replica.connections.leave_alone(node_id, now_ms=now_ms)
        return
    if answer.error_code in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
        if isinstance(replica.state, Follower):
            replica.state.download = None  # the leader has a later one: ask again which
        return
    state = _followed(replica, node_id, response, answer, now_ms=now_ms)
    if state is None or state.download is None:
        return
    download = state.download
    if download.snapshot != OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch):
        return
    assert answer.position == download.position, "one piece after the other"
    if not answer.unaligned_records:
        _could_not_use(replica, node_id, f"it cannot read its snapshot at {download.position}", now_ms=now_ms)
        return
    replica.effects.append(WriteSnapshot(download.snapshot, download.position, answer.unaligned_records))
    download.position += len(answer.unaligned_records)
    if download.position >= answer.size:
        replica.installing = download.snapshot
        replica.effects.append(InstallSnapshot(download.snapshot, answer.size))
    _leader_lives(replica, state, now_ms=now_ms)


def snapshot_refused(replica: QuorumReplica, snapshot: OffsetAndEpoch, why: str, *, now_ms: int) -> None:
    assert replica.installing == snapshot
    replica.installing = None
    state = replica.state
    if isinstance(state, Follower):
        assert state.leader_id is not None
        state.download = None
        _could_not_use(replica, state.leader_id, why, now_ms=now_ms)


def snapshot_installed(replica: QuorumReplica, snapshot: OffsetAndEpoch, size: int, history: VoterHistory) -> None:
    """Begins the log again at the end of the snapshot. What was in it before is in the snapshot, or was never
    committed."""
    assert replica.installing == snapshot
    assert snapshot.offset >= replica.high_watermark, "a snapshot does not go back behind what is committed"
    replica.installing = None
    replica.log.reset_to(snapshot)
    replica.log.snapshots = {snapshot: size}
    replica.history = history
    replica.advance_high_watermark(snapshot.offset)
    if isinstance(replica.state, Follower):
        replica.state.download = None
