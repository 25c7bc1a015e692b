"""Carries out what the core of the quorum wants done: the shell between it and the log, the disk and the network.

Rules:
- Effects are carried out one after the other, in the order in which the core returned them. While `quorum-state` is
  being written, or a snapshot installed, those behind it wait; what happens meanwhile is told to the core all the same.
- A sync is begun in its turn and ends when it ends.
- The log, the images that follow from it, and what the core knows of it change together.
- What is written to `quorum-state` is what it holds when its turn comes: of several changes in a row, between which
  nothing has left this node, the last is enough.
- What fails, on the disk or because a record is unknown here, ends the node: it has promised what it cannot keep.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.base.environment import Environment
from barnabas.base.machine_time import MachineTime
from barnabas.base.promise import Promise
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import CorruptMessage, KafkaError, ProtocolError
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import AbortTransactionRecord
from barnabas.replication.metadata.batches import QuorumVoter, checked_batches
from barnabas.replication.metadata.image_delta import MetadataDelta
from barnabas.replication.metadata.snapshots import SnapshotId
from barnabas.replication.metadata.snapshotter import SNAPSHOTS_KEPT
from barnabas.replication.quorum.batches import control_batch, quorum_voters, read_batches
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import Append, Committed, Effect, LeaderChanged, Persist, Sync
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.opening import OpenedQuorum, voters_of_snapshot
from barnabas.replication.quorum.quorum_files import (
    FetchedSnapshot,
    finish_part,
    read_piece,
    snapshot_sizes,
    write_piece,
    write_quorum_state,
)
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.settings import TIMER_EARLY_MS, Identity, QuorumConfig
from barnabas.replication.quorum.states import NEVER_MS, Resigned
from barnabas.replication.quorum.voters import Address

if TYPE_CHECKING:
    from barnabas.replication.quorum.exchange.effects import (
        AppendFetched,
        InstallSnapshot,
        ReadLog,
        ReadSnapshot,
        Respond,
        Send,
        Truncate,
        Unusable,
        WriteSnapshot,
    )
    from barnabas.replication.quorum.interfaces import Peers, QuorumListener


class QuorumDriver:
    def __init__(
        self,
        me: Identity,
        config: QuorumConfig,
        opened: OpenedQuorum,
        peers: "Peers",
        environment: Environment,
        listener: "QuorumListener",
    ) -> None:
        """Does nothing before `start`."""
        self.log = opened.log
        self.loader = opened.loader
        random = environment.random

        def draw() -> float:
            return random.getrandbits(32) / (1 << 32)

        self.core = QuorumCore(QuorumReplica(me, config, opened.view, opened.history, draw, read_batches))
        self._me = me
        self._config = config
        self._stored = opened.stored
        self._peers = peers
        self._clock = environment.clock
        self._files = environment.files
        self._workers = environment.workers
        self._report = environment.report
        self._listener = listener
        self._effects: deque[Effect] = deque()
        self._is_waiting = False
        """For the disk: effects stand still until it has done what it was asked to."""
        self._committed_offset: int | None = None
        """The high watermark that the listener has not heard of so far."""
        self._told: Unusable | None = None
        self._is_started = False
        self._is_closed = False
        self._time = MachineTime(environment.clock, self._tick, TIMER_EARLY_MS)

    # ---- inputs

    def start(self) -> Promise[None]:
        """Joins the quorum, after what was found in the log is durable: others will hear of it as if it were. Returns a
        promise that is kept when requests can be received."""
        started: Promise[None] = Promise()

        def start(_flushed: None) -> None:
            self._is_started = True
            self._do(self.core.start(self._stored, now_ms=self._time.tell_ms()))
            started.resolve(None)

        self._when_done(self.log.flush(), start)
        return started

    def receive(self, request: Any) -> Promise[Any]:
        """Hands a request of another node, or of an administrator, to the core; returns a promise of the response."""
        assert self._is_started, "a node that does not know its own vote must not answer"
        self.do_what_is_due()
        response: Promise[Any] = Promise()
        self._do(self.core.receive_request(response, request, now_ms=self._time.tell_ms()))
        return response.map(self._with_wall_clock) if request.__api_key__ == ApiKey.DESCRIBE_QUORUM else response

    def _with_wall_clock(self, description: Any) -> Any:
        from barnabas.replication.quorum.leadership.description import put_off

        return put_off(description, self._clock.now_ms() - self._clock.monotonic_ms())

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Appends records of the controller, all or none; returns their end offset. They are committed when the high
        watermark reaches it while this node leads the same epoch. Raises KafkaError if the disk has no room."""
        assert not self._effects, "a leader that may decide waits for nothing"
        delta = self.loader.replayed(records)  # first: what cannot be replayed must not be in the log
        now_ms = self._clock.now_ms()
        end_offset, effects = self._appended(records, now_ms)
        self._load(delta, end_offset, self.core.epoch, now_ms)
        self._do(effects)
        return end_offset

    def _load(self, delta: MetadataDelta, end_offset: int, epoch: int, now_ms: int) -> None:
        """Takes over what this leader has appended, without reading it again."""
        self.loader.append(delta, end_offset=end_offset, epoch=epoch, now_ms=now_ms, controller_id=self._me.key.node_id)

    def _appended(self, records: Sequence[MetadataRecord], now_ms: int) -> tuple[int, list[Effect]]:
        """Writes before the core hears of it: a disk may be full, and then nothing has happened."""
        batches, base_offset = self.log.batches_of(records, now_ms), self.log.log_end_offset
        try:
            for batch in batches:
                self.log.append_batch(batch, epoch=self.core.epoch, now_ms=now_ms)
        except KafkaError:
            if self.log.log_end_offset > base_offset:
                self.log.truncate_to(base_offset)
            raise
        return self.core.append(None, self.log.log_end_offset - base_offset, now_ms=self._time.tell_ms())

    def abort_transaction(self) -> None:
        """Ends a transaction that a leader before this one has begun and not ended: its records never count."""
        base_offset = self.log.log_end_offset
        abort = AbortTransactionRecord(reason="The controller could not finish it")
        _, effects = self._appended([abort], self._clock.now_ms())
        self._do(effects)
        self.loader.load(self.log.batches_from(base_offset))

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Returns where other nodes reach this one."""
        return self._me.addresses

    @property
    def leader(self) -> tuple[int, int, Address | None]:
        """Returns who leads, -1 if nobody is known to; the epoch; and the leader's address."""
        return self.core.replica.leader

    def resign(self) -> None:
        """Hands over to the voter with the best log."""
        self._do(self.core.resign(now_ms=self._time.tell_ms()))

    @property
    def is_handing_over(self) -> bool:
        """Returns whether it has resigned, and not every voter knows so far."""
        state = self.core.replica.state
        return isinstance(state, Resigned) and self.core.replica.is_shutting_down and bool(state.unacknowledged)

    def shut_down(self) -> None:
        """Resigns, and stands for election no more. Others are still answered until `close`."""
        if self._is_started:
            self._do(self.core.shut_down(now_ms=self._time.tell_ms()))

    def close(self) -> None:
        """Stops taking part, and leaves no timer behind. The log is closed by the manager of all logs."""
        self._is_closed = True
        self._effects.clear()
        self._time.stop()

    def do_what_is_due(self) -> None:
        """Lets the core see the time if its timer is late: who stood still may have been deposed meanwhile."""
        self._time.catch_up()

    def _tick(self) -> None:
        self._do(self.core.tick(now_ms=self._time.tell_ms()))

    # ---- effects

    def _do(self, effects: list[Effect]) -> None:
        if self._is_closed:
            return
        self._effects += effects
        self._carry_out()
        due_ms = self.core.next_deadline_ms(self._time.told_ms)
        if due_ms < NEVER_MS and not self._is_closed:
            self._time.wake_at(due_ms)

    def _carry_out(self) -> None:
        while self._effects and not self._is_waiting:
            effect = self._effects.popleft()
            with self._failing():
                _CARRY_OUT[type(effect).__name__](self, effect)
        if self._committed_offset is not None and not self._is_waiting and not self._is_closed:
            # After all else: whoever is answered now may append at once.
            high_watermark, self._committed_offset = self._committed_offset, None
            self._listener.on_commit(high_watermark)

    def _when_done(self, work: Promise[Any], go_on: Callable[[Any], None]) -> None:
        """Goes on with the result of work on the disk. A failure ends the node."""

        def done(promise: Promise[Any]) -> None:
            if self._is_closed:
                return
            if promise.error is not None:
                self._fail(promise.error)
            else:
                with self._failing():
                    go_on(promise.value)

        work.when_done(done)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Ends the node if what is done fails: a log and an image that differ must not go on. A bug is raised, too."""
        try:
            yield
        except (KafkaError, ProtocolError, OSError) as error:
            self._fail(error)
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: Exception) -> None:
        self.close()
        self._listener.on_failure(error)

    def _wait_for(self, job: Callable[[], Any], go_on: Callable[[Any], None]) -> None:
        """Lets all effects behind this one wait for the job, which blocks."""
        self._is_waiting = True

        def done(result: Any) -> None:
            self._is_waiting = False
            go_on(result)

        self._when_done(self._workers.run(job), done)

    def _persist(self, effect: Persist) -> None:
        for later in self._effects:
            if isinstance(later, Persist):
                return
            if not isinstance(later, LeaderChanged):
                break
        self._wait_for(lambda: write_quorum_state(self._files, self.log.path, effect.data), lambda _: self._do([]))

    # ---- the log

    def _append(self, effect: Append) -> None:
        """Appends the control records of the quorum. What the controller decided is in the log and the loader."""
        if effect.batch.control:
            now_ms, control = self._clock.now_ms(), effect.batch.control
            self.log.append_batch(control_batch(control, now_ms=now_ms), epoch=effect.batch.epoch, now_ms=now_ms)
            self._load(self.loader.replayed(()), effect.batch.end_offset, effect.batch.epoch, now_ms)
        assert self.log.log_end_offset == effect.batch.end_offset, "the log and the core do not agree"

    def _append_fetched(self, effect: "AppendFetched") -> None:
        records = memoryview(effect.records)
        batches = list(checked_batches(records))
        whole = sum(header.size_bytes for header, _ in batches)  # a leader may send half of the last one
        self.log.append_fetched(records[:whole], self._clock.now_ms())
        self.loader.load(batches)
        assert self.log.log_end_offset == effect.end_offset, "the log and the core do not agree"

    def _truncate(self, effect: "Truncate") -> None:
        self.log.truncate_to(effect.end_offset)
        self.loader.truncate_to(effect.end_offset)
        # Several batches may have been loaded in one step: those that are left are loaded again.
        self.loader.load(self.log.batches_from(self.loader.appended_image.end_offset))

    def _sync(self, effect: Sync) -> None:
        self._when_done(
            self.log.flush(), lambda _: self._do(self.core.synced(effect.sync, now_ms=self._time.tell_ms()))
        )

    # ---- messages

    def _send(self, effect: "Send") -> None:
        from barnabas.replication.quorum.messages import keep_records

        node_id, request = effect.to, effect.request
        answer = self._peers.send(node_id, effect.address, request, timeout_ms=self._config.response_timeout_ms)

        def answered(response: Promise[Any]) -> None:
            if self._is_closed:
                return
            if response.error is None:
                keep_records(response.value)
                effects = self.core.receive_response(node_id, request, response.value, now_ms=self._time.tell_ms())
            else:
                effects = self.core.request_failed(node_id, request, now_ms=self._time.tell_ms())
                if self._peers.is_refused(response.error):
                    effects += self.core.leader_lost(node_id, now_ms=self._time.tell_ms())
            self._do(effects)

        answer.when_done(answered)

    def _respond(self, effect: "Respond") -> None:
        if effect.read is not None:
            from barnabas.replication.quorum.messages import put_records

            put_records(effect.response, self._read(effect.read))
        effect.token.resolve(effect.response)

    def _read(self, read: "ReadLog | ReadSnapshot") -> Any:
        from barnabas.replication.quorum.exchange.effects import ReadLog

        if isinstance(read, ReadLog):
            return self.log.read(read.offset, read.max_bytes)
        return read_piece(self._files, self.log.path, *read)

    def _unusable(self, effect: "Unusable") -> None:
        if effect != self._told:  # it may be asked for again for long
            self._told = effect
            self._report.warning(f"what node {effect.node_id} has sent of the metadata is damaged: {effect.why}")

    # ---- snapshots of its own

    def voters_at(self, end_offset: int) -> Sequence[QuorumVoter]:
        """Returns the voters that a snapshot up to this offset must name; none if they are configured."""
        voters, kraft_version = self.core.replica.history.at(end_offset)
        return quorum_voters(voters) if kraft_version > 0 else ()

    def on_snapshots(self, kept: Sequence[SnapshotId]) -> None:
        """Deletes the log before the older snapshot: should the newer one be lost, that one and the log serve."""
        self.core.snapshots_are(snapshot_sizes(self._files, self.log.path))
        if len(kept) == SNAPSHOTS_KEPT and kept[0].end_offset > self.log.log_start_offset:
            self.log.delete_before(kept[0].end_offset)
            self.core.log_deleted_before(kept[0].end_offset)

    # ---- snapshots of the leader

    def _write_snapshot(self, effect: "WriteSnapshot") -> None:
        write_piece(self._files, self.log.path, effect.snapshot, effect.position, effect.records)

    def _install_snapshot(self, effect: "InstallSnapshot") -> None:
        self._wait_for(
            lambda: finish_part(self._files, self.log.path, effect.snapshot, self._me.cluster_id),
            lambda found: self._installed(effect.snapshot, found),
        )

    def _installed(self, snapshot: OffsetAndEpoch, found: FetchedSnapshot | CorruptMessage) -> None:
        if isinstance(found, CorruptMessage):
            self._do(self.core.snapshot_refused(snapshot, found.message, now_ms=self._time.tell_ms()))
            return
        self.log.begin_at(snapshot.offset)
        self.loader.begin_at(found.image)
        self._report.info(f"metadata snapshot at offset {snapshot.offset} fetched from the leader")
        history, now_ms = self.core.replica.history, self._time.tell_ms()
        voters, kraft_version = voters_of_snapshot(found.data) or (history.last, history.kraft_version)
        self._do(self.core.snapshot_installed(snapshot, len(found.data), voters, kraft_version, now_ms=now_ms))

    # ---- news for the controller

    def _leader_changed(self, effect: LeaderChanged) -> None:
        self._listener.on_leader_change(effect.leader_id, effect.epoch)

    def _committed(self, effect: Committed) -> None:
        self.log.advance_high_watermark(effect.high_watermark)
        self._committed_offset = effect.high_watermark


# Effects are known by their names, so that those for other nodes are not imported before there is one.
_CARRY_OUT: dict[str, Callable[[QuorumDriver, Any], None]] = {
    "Persist": QuorumDriver._persist,
    "Append": QuorumDriver._append,
    "AppendFetched": QuorumDriver._append_fetched,
    "Truncate": QuorumDriver._truncate,
    "Sync": QuorumDriver._sync,
    "Send": QuorumDriver._send,
    "Respond": QuorumDriver._respond,
    "Unusable": QuorumDriver._unusable,
    "WriteSnapshot": QuorumDriver._write_snapshot,
    "InstallSnapshot": QuorumDriver._install_snapshot,
    "LeaderChanged": QuorumDriver._leader_changed,
    "Committed": QuorumDriver._committed,
}
