"""A node: the real core of the quorum with the shell that a broker would give it, on a simulated disk.

The shell is as dull as the real one has to be: effects one after the other, nothing after a Persist before it is on the
disk, syncs that end when they end.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse
from barnabas.replication.quorum import effects as effect_types
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import Effect
from barnabas.replication.quorum.exchange import effects as exchange
from barnabas.replication.quorum.log_view import Batch, LogSync, LogView, OffsetAndEpoch
from barnabas.replication.quorum.messages import put_records
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.settings import Identity
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterHistory
from tests.simulation.quorum.disk import Disk, Piece, Snapshot, StoredBatch

if TYPE_CHECKING:
    from tests.simulation.quorum.cluster import Cluster

CLUSTER_ID = "simulated"
SUPPORTED = ApiVersionsResponse(
    error_code=0,
    api_keys=[],
    supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)],
)


def next_state(state: int, value: int) -> int:
    """Folds one more record into the hash of all that was applied."""
    return (state * 1_000_003 + value) & 0xFFFFFFFFFFFF


def address_of(node_id: int) -> Address:
    return Address("CONTROLLER", f"node-{node_id}", 9093)


def batches_of(records: list[StoredBatch] | None) -> list[Batch]:
    return [stored.batch for stored in records or ()]


class PendingAppend(NamedTuple):
    """Records of a client that waits until they are committed."""

    end_offset: int
    epoch: int


class Node:
    """A machine with a disk. Each start is a new life of it."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self.cluster = cluster
        self.events = cluster.events
        self.node_id = node_id
        self.disk = Disk(ReplicaKey(node_id, cluster.directory_id(node_id, 0)))
        self.lost_disks: list[Disk] = []
        self.life = 0
        self.is_up = False
        self.has_power = True
        self.paused_until_ms = 0
        self.applied = OffsetAndEpoch(0, 0)
        self.state = 0
        self.pending: deque[PendingAppend] = deque()
        self._effects: deque[Effect] = deque()
        self._part: Snapshot | None = None
        self._is_persisting: effect_types.Persist | None = None
        self._timer_at_ms = 0
        self.core: QuorumCore

    @property
    def key(self) -> ReplicaKey:
        return self.disk.key

    # ---- lives

    def start(self) -> None:
        """Starts a process with what is on the disk."""
        self.life += 1
        self.is_up = self.has_power = True
        self.paused_until_ms = self._timer_at_ms = 0
        disk = self.disk
        disk.recover(disk.log)
        snapshot = disk.snapshots.get(disk.log.start)
        voters, kraft_version = self.cluster.configured_voters(self)
        if snapshot is not None:
            voters, kraft_version = snapshot.voters, snapshot.kraft_version
        history = VoterHistory(voters, kraft_version, disk.log.start.offset - 1)
        log = LogView(disk.log.start, batches_of(disk.log.batches))
        log.snapshots = {found: stored.size for found, stored in disk.snapshots.items()}
        for batch in batches_of(disk.log.batches):
            for offset, record in enumerate(batch.control, batch.base_offset):
                history.replay(offset, record)
        self.applied = disk.log.start
        self.state = 0 if snapshot is None else snapshot.state
        me = Identity(CLUSTER_ID, self.key, (address_of(self.node_id),), bootstrap=self.cluster.bootstrap)
        config = self.cluster.settings.config
        self.core = QuorumCore(QuorumReplica(me, config, log, history, self.events.random.random, batches_of))
        self.events.tell("{} starts with {} to {}, {}", self.node_id, log.start_offset, log.end, disk.quorum_state)
        self._do(self.core.start(disk.quorum_state, now_ms=self.events.now_ms))

    def kill(self, *, power: bool) -> None:
        """Ends the process; without power the disk loses what was not synced."""
        self.events.tell("{} is killed{}", self.node_id, ", power cut" if power else "")
        self.is_up = False
        self.has_power = not power
        self.life += 1
        if self._is_persisting is not None and self.events.random.random() < 0.5:
            self.disk.quorum_state = self._is_persisting.data  # the file was renamed, and nobody knows
        self._is_persisting = None
        self._effects.clear()
        self.pending.clear()
        if power:
            self.disk.cut_power(self.events.random)
        self.cluster.network.process_died(self.node_id, silently=power)

    def wipe(self) -> None:
        """Gets an empty disk, with a directory id of its own."""
        assert not self.is_up
        self.lost_disks.append(self.disk)
        self.disk = Disk(ReplicaKey(self.node_id, self.cluster.directory_id(self.node_id, len(self.lost_disks))))
        self.events.tell("{} gets an empty disk", self.node_id)

    def deliver(self, callback: Callable[..., None], *args: Any) -> None:
        """Calls back now, or when the process goes on; never in another life."""
        if not self.is_up:
            return
        if self.events.now_ms < self.paused_until_ms:
            self.events.in_order(self.paused_until_ms, self._deliver_later, self.life, callback, args)
        else:
            callback(*args)

    def _deliver_later(self, life: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        if life == self.life:
            self.deliver(callback, *args)

    # ---- inputs

    def receive_request(self, token: Any, request: Any) -> None:
        if isinstance(request, ApiVersionsRequest):
            self.cluster.network.respond(token[0], request, SUPPORTED)
            return
        self._do(self.core.receive_request(token, request, now_ms=self.events.now_ms))

    def receive_response(self, node_id: int, request: Any, response: Any) -> None:
        self._do(self.core.receive_response(node_id, request, response, now_ms=self.events.now_ms))

    def request_failed(self, node_id: int, request: Any) -> None:
        self._do(self.core.request_failed(node_id, request, now_ms=self.events.now_ms))

    def leader_lost(self, node_id: int) -> None:
        self._do(self.core.leader_lost(node_id, now_ms=self.events.now_ms))

    def append(self, values: tuple[int, ...]) -> PendingAppend:
        end_offset, effects = self.core.append(values, len(values), now_ms=self.events.now_ms)
        append = PendingAppend(end_offset, self.core.epoch)
        self.pending.append(append)
        self._do(effects)
        return append

    def resign(self) -> None:
        self._do(self.core.resign(now_ms=self.events.now_ms))

    def _synced(self, sync: LogSync, begun: Any) -> None:
        self.disk.end_sync(begun)
        self._do(self.core.synced(sync, now_ms=self.events.now_ms))

    def _tick(self, life: int, at_ms: int) -> None:
        if life != self.life or at_ms != self._timer_at_ms or not self.is_up:
            return
        if self.events.now_ms < self.paused_until_ms:
            self.events.after(self.paused_until_ms - self.events.now_ms, self._tick, life, at_ms)
            return
        self._timer_at_ms = 0
        self._do(self.core.tick(now_ms=self.events.now_ms))

    # ---- effects

    def _do(self, effects: list[Effect]) -> None:
        self._effects += effects
        self.cluster.oracle.after_call(self)
        self._carry_out()
        if self.is_up:
            now_ms = self.events.now_ms
            deadline_ms = self.core.next_deadline_ms(now_ms)
            if not 0 < self._timer_at_ms <= deadline_ms or self._timer_at_ms <= now_ms:
                self._timer_at_ms = deadline_ms
                self.events.after(deadline_ms - now_ms, self._tick, self.life, deadline_ms)

    def _carry_out(self) -> None:
        while self._effects and self._is_persisting is None:
            effect = self._effects.popleft()
            _CARRY_OUT[type(effect)](self, effect)

    def persist(self, effect: effect_types.Persist) -> None:
        self._is_persisting = effect
        self.events.after(self.cluster.sync_ms(), self._persisted, self.life, effect)

    def _persisted(self, life: int, effect: effect_types.Persist) -> None:
        if life == self.life:
            self.disk.quorum_state = effect.data
            self._is_persisting = None
            self._carry_out()

    def append_own(self, effect: effect_types.Append) -> None:
        values = effect.payload or (0,) * len(effect.batch.control)
        stored = StoredBatch(effect.batch, values)
        self.cluster.oracle.leads(self, effect.batch.epoch)
        self.disk.append([stored])
        self.cluster.oracle.appended(self, [stored])

    def append_fetched(self, effect: exchange.AppendFetched) -> None:
        self.disk.append(effect.records)
        self.cluster.oracle.appended(self, effect.records)

    def truncate(self, effect: exchange.Truncate) -> None:
        self.events.tell("{} truncates to {}", self.node_id, effect.end_offset)
        self.disk.truncate(effect.end_offset)

    def sync(self, effect: effect_types.Sync) -> None:
        begun = self.disk.begin_sync()
        self.events.after(self.cluster.sync_ms(), self._deliver_later, self.life, self._synced, (effect.sync, begun))

    def send(self, effect: exchange.Send) -> None:
        self.cluster.oracle.sent(self, effect.request)
        self.cluster.network.send(self, effect.to, effect.request)
        if isinstance(effect.request, VoteRequest):
            self.cluster.faults.vote_was_sent(self)

    def respond(self, effect: exchange.Respond) -> None:
        connection, request = effect.token
        if connection is None:
            self.cluster.admin_answered(request, effect.response)
            return
        self.cluster.oracle.responded(self, request, effect.response)
        if effect.read is not None:
            put_records(effect.response, self._read(effect.read))
        self.cluster.network.respond(connection, request, effect.response)
        if isinstance(effect.response, VoteResponse):
            self.cluster.faults.vote_was_sent(self)

    def _read(self, what: exchange.ReadLog | exchange.ReadSnapshot) -> Any:
        """Reads what was asked for; nothing if a snapshot has taken its place meanwhile."""
        settings = self.cluster.settings
        if isinstance(what, exchange.ReadLog):
            found = self.disk.read(what.offset, settings.fetch_batches_max)
            return found if found and found[0].batch.base_offset == what.offset else None
        snapshot = self.disk.snapshots.get(what.snapshot)
        return b"" if snapshot is None else Piece(snapshot, min(settings.piece_bytes, snapshot.size - what.position))

    def write_snapshot(self, effect: exchange.WriteSnapshot) -> None:
        self._part = effect.records.snapshot

    def install_snapshot(self, effect: exchange.InstallSnapshot) -> None:
        snapshot = self._part
        assert snapshot is not None
        self.events.tell("{} installs the snapshot {}", self.node_id, snapshot.id)
        self.disk.begin_at(snapshot)
        self.applied, self.state = effect.snapshot, snapshot.state
        self.cluster.oracle.applied(self)
        installed = (effect.snapshot, effect.size, snapshot.voters, snapshot.kraft_version)
        self.events.after(0, self._deliver_later, self.life, self._installed, installed)

    def _installed(self, *installed: Any) -> None:
        self._do(self.core.snapshot_installed(*installed, now_ms=self.events.now_ms))

    def leader_changed(self, effect: effect_types.LeaderChanged) -> None:
        self.events.tell("{} follows {} in epoch {}", self.node_id, effect.leader_id, effect.epoch)
        if effect.leader_id != self.node_id:
            self.pending.clear()  # they are told NOT_CONTROLLER, whatever becomes of their records
        else:
            self.cluster.faults.leader_is_new(self)

    def committed(self, effect: effect_types.Committed) -> None:
        for stored in self.disk.read(self.applied.offset, 1 << 30):
            if stored.end_offset > effect.high_watermark:
                break
            for value in stored.values:
                self.state = next_state(self.state, value)
            self.applied = OffsetAndEpoch(stored.end_offset, stored.batch.epoch)
        self.cluster.oracle.committed(self, effect.high_watermark)
        while self.pending and self.pending[0].end_offset <= effect.high_watermark:
            self.cluster.oracle.answered(self.pending.popleft())

    # ---- snapshots of its own

    def snapshot_id(self) -> OffsetAndEpoch:
        return self.applied

    def take_snapshot(self, *, delete: bool) -> None:
        """Writes what was applied to a snapshot, and may delete the log before it."""
        if self.applied.offset <= self.disk.log.start.offset or self.core.replica.installing is not None:
            return
        voters, kraft_version = self.core.replica.history.at(self.applied.offset)
        snapshot = Snapshot(self.snapshot_id(), self.state, voters, kraft_version)
        self.events.tell("{} takes the snapshot {}", self.node_id, snapshot.id)
        self.disk.store_snapshot(snapshot)
        self.core.snapshot_taken(snapshot.id, snapshot.size)
        if delete:
            self.disk.delete_before(snapshot.id)
            self.core.log_deleted_before(snapshot.id.offset)


_CARRY_OUT: dict[type, Callable[[Node, Any], None]] = {
    effect_types.Persist: Node.persist,
    effect_types.Append: Node.append_own,
    exchange.AppendFetched: Node.append_fetched,
    exchange.Truncate: Node.truncate,
    effect_types.Sync: Node.sync,
    exchange.Send: Node.send,
    exchange.Respond: Node.respond,
    exchange.WriteSnapshot: Node.write_snapshot,
    exchange.InstallSnapshot: Node.install_snapshot,
    effect_types.LeaderChanged: Node.leader_changed,
    effect_types.Committed: Node.committed,
}
