"""The driver of `__cluster_metadata-0` for a quorum of one: what was decided is appended, synced, and then true.

Rules:
- Records are replayed as soon as they are appended, into `appended_image`: the next decision must see them. They are
  told to others, through `image` and `on_commit`, and answered only once an fsync covers them: with one voter that
  commits them.
- Commits happen in the order of the appends. An answer that needs no records still waits for those appended before it,
  because it was made of what they say.
- A full disk refuses an append and nothing has happened. Any other failure of the disk is final: no more decisions.
- Each start takes leadership with the next leader epoch; its LeaderChange is the first batch of that epoch.
- A snapshot is taken in a worker after so many bytes, or so much time with anything new. The two latest are kept, and
  the log from the older one on: either can be lost to a bad sector.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from barnabas.protocol.errors import KafkaError, KafkaStorageError
from barnabas.protocol.metadata_records import AbortTransactionRecord, NoOpRecord
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.cluster_control import bootstrap_records
from barnabas.replication.decision import Decision
from barnabas.replication.image import CLUSTER_METADATA_TOPIC, ImageChanges, MetadataImage
from barnabas.replication.image_delta import MetadataDelta
from barnabas.replication.metadata_batches import (
    BATCH_BYTES_MAX,
    MetadataLoader,
    QuorumVoter,
    checked_batches,
    leader_change_batch,
    record_batches,
)
from barnabas.replication.metadata_record_serde import MetadataRecord
from barnabas.replication.snapshots import (
    SnapshotId,
    latest_image,
    list_snapshots,
    remove_parts,
    write_snapshot,
)
from barnabas.storage.files import Files
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir
from barnabas.storage.seams import Clock, Report, Timer, Workers

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"
READ_BYTES = 4 * 1024 * 1024
SNAPSHOTS_KEPT = 2

R = TypeVar("R")
Then = Callable[[BaseException | None], None]


class MetadataLogSettings(NamedTuple):
    node_id: int
    cluster_id: str
    voters: Sequence[QuorumVoter]
    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    max_snapshot_interval_ms: int = 60 * 60 * 1000
    """0: never because of time."""
    batch_bytes_max: int = BATCH_BYTES_MAX


def metadata_log_config(*, segment_bytes: int = 1 << 30, segment_ms: int = 7 * 24 * 60 * 60 * 1000) -> LogConfig:
    """Snapshots, not age or size, decide what of the log may go."""
    return LogConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        max_message_bytes=BATCH_BYTES_MAX,
        retention_ms=-1,
        retention_bytes=-1,
    )


class _Pending(NamedTuple):
    """Appended, not yet durable."""

    image: MetadataImage
    changes: ImageChanges | None
    """None: nothing was appended, only an answer waits its turn."""
    then: Then


class MetadataLog:
    def __init__(
        self,
        log: Log,
        settings: MetadataLogSettings,
        *,
        files: Files,
        clock: Clock,
        workers: Workers,
        report: Report,
        on_commit: Callable[[MetadataImage, ImageChanges], None],
    ) -> None:
        """Loads what is there; reads, but writes nothing before `become_leader`."""
        self._log = log
        self._settings = settings
        self._files = files
        self._clock = clock
        self._workers = workers
        self._report = report
        self._on_commit = on_commit
        self._pending: deque[_Pending] = deque()
        self.failure: BaseException | None = None
        """Set for good: what was appended may never have reached the disk."""
        self._has_open_transaction = False
        self._bytes_since_snapshot = 0
        self._is_taking_snapshot = False
        self._is_closed = False
        self._snapshot_timer: Timer | None = None
        self.epoch = -1
        """The leader epoch; -1 before `become_leader`."""
        self.appended_image = self._load()
        """What decisions are made on."""
        self.image = self.appended_image
        """What is committed."""

    @property
    def high_watermark(self) -> int:
        return self.image.end_offset

    # ---- start

    @property
    def log_dir(self) -> LogDir:
        return self._log.log_dir

    def _load(self) -> MetadataImage:
        remove_parts(self._files, self._log.path)
        image = latest_image(self._files, self._log.path, self._settings.cluster_id, self._report)
        self._snapshot_end_offset = image.end_offset
        if self._log.log_start_offset > image.end_offset:
            raise KafkaStorageError(
                f"{METADATA_PARTITION} starts at offset {self._log.log_start_offset} and no readable snapshot in "
                f"{self._log.path} reaches so far: the metadata before it is lost"
            )
        loader = MetadataLoader(image)
        offset = image.end_offset
        while offset < self._log.log_end_offset:
            offset = self._load_batches(loader, offset)
        self._has_open_transaction = loader.in_transaction
        return loader.finish()[0]._replace(controller_id=-1)

    def _load_batches(self, loader: MetadataLoader, offset: int) -> int:
        found = self._log.read(offset, READ_BYTES, max_offset=self._log.log_end_offset)
        if found is None:
            return self._log.log_end_offset
        data = found.read()
        self._bytes_since_snapshot += len(data)
        for header, batch in checked_batches(memoryview(data)):
            loader.load(header, batch)
            offset = header.next_offset
        return offset

    def become_leader(self, then: Then) -> None:
        """Calls back when the new epoch is durable. Decisions need not wait for that: they are appended behind it."""
        assert self.epoch < 0, "leadership is taken once"
        image = self.appended_image
        now_ms = self._clock.now_ms()
        self.epoch = max(image.epoch, self._log.latest_epoch, 0) + 1
        try:
            self._reach(image, now_ms)
            self._write([leader_change_batch(self._settings.node_id, self._settings.voters, now_ms=now_ms)], now_ms)
            self._abort_open_transaction(now_ms)
        except KafkaError as error:
            then(error)
            return
        self._appended(MetadataDelta(image), now_ms, then)
        if not image.features:
            self.append(bootstrap_records(), _ignore)

    def _reach(self, image: MetadataImage, now_ms: int) -> None:
        """A log that ends before the snapshot lost what the snapshot has: its offsets must not be given out again."""
        missing = image.end_offset - self._log.log_end_offset
        if missing <= 0:
            return
        self._report.warning(
            f"{METADATA_PARTITION} ends at offset {self._log.log_end_offset}, before its snapshot at "
            f"{image.end_offset}: going on from the snapshot",
            missing=missing,
        )
        for start in range(0, missing, _NO_OPS_PER_BATCH):
            (batch,) = record_batches([NoOpRecord()] * min(_NO_OPS_PER_BATCH, missing - start), now_ms=now_ms)
            self._log_append(batch, image.epoch, now_ms)
        self._log.delete_records(image.end_offset)

    # ---- append

    def decide(
        self, decide: Callable[[MetadataImage], Decision[R]], then: Callable[[R | None, BaseException | None], None]
    ) -> None:
        """Decides on the latest image and calls back with the response when it may be sent, or with what went wrong."""
        try:
            decision = decide(self.appended_image)
        except KafkaError as error:
            then(None, error)
            return
        self.append(decision.records, lambda error: then(None if error else decision.response, error))

    def append(self, records: Sequence[MetadataRecord], then: Then) -> None:
        """All of the records or none. Calls back when they are committed and `on_commit` knows, or with an error."""
        assert self.epoch >= 0, "only a leader appends"
        if self.failure is not None:
            then(self.failure)
        elif records:
            self._append(records, self._clock.now_ms(), then)
        elif self._pending:
            self._pending.append(_Pending(self.appended_image, None, then))
        else:
            then(None)

    def _append(self, records: Sequence[MetadataRecord], now_ms: int, then: Then) -> None:
        delta = MetadataDelta(self.appended_image)
        for record in records:  # before anything is written: what cannot be replayed must not be in the log
            delta.replay(record)
        batches = record_batches(records, now_ms=now_ms, batch_bytes_max=self._settings.batch_bytes_max)
        try:
            self._abort_open_transaction(now_ms)
            self._write(batches, now_ms)
        except KafkaError as error:
            then(error)
            return
        self._appended(delta, now_ms, then)

    def _write(self, batches: Sequence[bytearray], now_ms: int) -> None:
        for index, batch in enumerate(batches):
            self._log_append(batch, self.epoch, now_ms)
            self._has_open_transaction |= index == 0 and len(batches) > 1
        if len(batches) > 1:
            self._has_open_transaction = False

    def _log_append(self, batch: bytearray, epoch: int, now_ms: int) -> None:
        self._log.append_own(memoryview(batch), leader_epoch=epoch, now_ms=now_ms)
        self._bytes_since_snapshot += len(batch)

    def _abort_open_transaction(self, now_ms: int) -> None:
        """Its end was not written, because of a stop or a full disk: whatever it holds shall never count."""
        if self._has_open_transaction:
            abort = AbortTransactionRecord(reason="The controller could not finish it")
            self._write(record_batches([abort], now_ms=now_ms), now_ms)
            self._has_open_transaction = False

    def _appended(self, delta: MetadataDelta, now_ms: int, then: Then) -> None:
        end_offset = self._log.log_end_offset
        self.appended_image, changes = delta.finish(
            end_offset=end_offset, epoch=self.epoch, timestamp_ms=now_ms, controller_id=self._settings.node_id
        )
        self._pending.append(_Pending(self.appended_image, changes, then))
        self._log.flush(lambda error: self._flushed(end_offset, error))

    # ---- commit

    def _flushed(self, end_offset: int, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        while self._pending and self._pending[0].image.end_offset <= end_offset:
            pending = self._pending.popleft()
            if pending.changes is not None:
                self.image = pending.image
                self._on_commit(pending.image, pending.changes)
            pending.then(None)
        self._schedule_snapshot()

    def _fail(self, error: BaseException) -> None:
        """The appended image holds what may never have reached the disk: nothing can be decided on it any more."""
        self.failure = error
        while self._pending:
            self._pending.popleft().then(error)

    # ---- snapshots

    def _schedule_snapshot(self) -> None:
        interval_ms = self._settings.max_snapshot_interval_ms
        if self.failure is not None or self._is_closed:
            return
        if self._bytes_since_snapshot >= self._settings.max_record_bytes_between_snapshots:
            self.take_snapshot()
        elif self._snapshot_timer is None and interval_ms > 0 and self.image.end_offset > self._snapshot_end_offset:
            self._snapshot_timer = self._clock.call_later(interval_ms, self.take_snapshot)

    def take_snapshot(self) -> None:
        """In a worker: the image it writes cannot change meanwhile."""
        self._cancel_timer()
        image, now_ms = self.image, self._clock.now_ms()
        if self._is_taking_snapshot or self._is_closed or image.end_offset <= self._snapshot_end_offset:
            return
        self._is_taking_snapshot = True
        self._bytes_since_snapshot = 0
        try:
            self._log.roll(now_ms)  # what the snapshot makes superfluous is then in segments that can go
        except KafkaError:
            pass  # the log has reported it, and a snapshot is all the more welcome
        self._workers.run(lambda: self._write_snapshot(image, now_ms), self._snapshot_taken)

    def _write_snapshot(self, image: MetadataImage, now_ms: int) -> list[SnapshotId]:
        """The snapshots that are left, the oldest first."""
        write_snapshot(self._files, self._log.path, image, self._settings.voters, now_ms=now_ms)
        snapshots = list_snapshots(self._files, self._log.path)
        for snapshot_id in snapshots[:-SNAPSHOTS_KEPT]:
            self._files.remove(f"{self._log.path}/{snapshot_id.file_name}")
        return snapshots[-SNAPSHOTS_KEPT:]

    def _snapshot_taken(self, kept: list[SnapshotId] | None, error: BaseException | None) -> None:
        self._is_taking_snapshot = False
        if self._is_closed:
            return
        if kept is None:
            self._report.warning(f"no snapshot of the metadata could be written: {error}", directory=self._log.path)
            return
        self._snapshot_end_offset = kept[-1].end_offset
        self._report.info(f"metadata snapshot taken at offset {self._snapshot_end_offset}", directory=self._log.path)
        if len(kept) == SNAPSHOTS_KEPT and not self._log.is_offline:
            self._log.delete_records(kept[0].end_offset)
        self._schedule_snapshot()

    def _cancel_timer(self) -> None:
        if self._snapshot_timer is not None:
            self._snapshot_timer.cancel()
            self._snapshot_timer = None

    def close(self) -> None:
        """No timer is left behind. The log itself is closed by whoever opened it."""
        self._is_closed = True
        self._cancel_timer()


_NO_OPS_PER_BATCH = 100_000


def _ignore(error: BaseException | None) -> None:
    """Whoever waits for what comes behind it learns of the failure."""
