"""The file side of `__cluster_metadata-0`: what is written to the log, how it is made durable, and how it is read back.

Rules:
- Records that belong together are appended all or none: a full disk refuses them, and nothing has happened.
- Records too large for one batch are a transaction of several. If its end cannot be written, the next append begins
  with an abort.
- Nothing here knows images, leaders or voters: the caller decides who may append and what that means.
"""

from collections.abc import Iterator, Sequence

from barnabas.base.environment import Report
from barnabas.base.promise import Promise
from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import KafkaError, KafkaStorageError
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import AbortTransactionRecord, NoOpRecord
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.metadata.batches import BATCH_BYTES_MAX, checked_batches, record_batches
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"
READ_BYTES = 4 * 1024 * 1024
_NO_OPS_PER_BATCH = 100_000


def metadata_log_config(*, segment_bytes: int = 1 << 30, segment_ms: int = 7 * 24 * 60 * 60 * 1000) -> LogConfig:
    """Returns a configuration without retention: snapshots, not age or size, decide what part of the log may go."""
    return LogConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        max_message_bytes=BATCH_BYTES_MAX,
        retention_ms=-1,
        retention_bytes=-1,
    )


class MetadataLog:
    __slots__ = ("_batch_bytes_max", "_has_open_transaction", "_log", "bytes_since_snapshot")

    def __init__(self, log: Log, *, batch_bytes_max: int = BATCH_BYTES_MAX) -> None:
        self._log = log
        self._batch_bytes_max = batch_bytes_max
        self._has_open_transaction = False
        self.bytes_since_snapshot = 0
        """The bytes that a start would have to replay. The snapshotter sets it back to 0."""

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def log_dir(self) -> LogDir:
        return self._log.log_dir

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def latest_epoch(self) -> int:
        return self._log.latest_epoch

    # ---- reading

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yields every batch from `offset` to the end. Raises if the log begins later or a batch is damaged."""
        if self._log.log_start_offset > offset:
            raise KafkaStorageError(
                f"{METADATA_PARTITION} starts at offset {self._log.log_start_offset} and no readable snapshot in "
                f"{self.path} reaches so far: the metadata before it is lost"
            )
        while offset < self._log.log_end_offset:
            found = self._log.read(offset, READ_BYTES, max_offset=self._log.log_end_offset)
            if found is None:
                return
            data = found.read()
            self.bytes_since_snapshot += len(data)
            for header, batch in checked_batches(memoryview(data)):
                yield header, batch
                offset = header.next_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns whole batches from `offset` on, one at least; nothing if the log does not hold the offset."""
        if not self._log.log_start_offset <= offset < self._log.log_end_offset:
            return b""
        found = self._log.read(offset, max_bytes, max_offset=self._log.log_end_offset)
        return b"" if found is None else found.read()

    def found_open_transaction(self) -> None:
        """Notes that what was read ends inside a transaction, which the next append must abort."""
        self._has_open_transaction = True

    # ---- writing

    def append(self, records: Sequence[MetadataRecord], *, epoch: int, now_ms: int) -> None:
        """Appends all records or none. Raises KafkaError if the disk refuses them."""
        self.abort_open_transaction(epoch=epoch, now_ms=now_ms)
        batches = record_batches(records, now_ms=now_ms, batch_bytes_max=self._batch_bytes_max)
        for index, batch in enumerate(batches):
            self.append_batch(batch, epoch=epoch, now_ms=now_ms)
            self._has_open_transaction |= index == 0 and len(batches) > 1
        self._has_open_transaction = False

    def append_batch(self, batch: bytearray, *, epoch: int, now_ms: int) -> None:
        self._log.append_as_coordinator(memoryview(batch), leader_epoch=epoch, now_ms=now_ms)
        self.bytes_since_snapshot += len(batch)

    def check_room(self, size: int, now_ms: int) -> None:
        """Raises KafkaError if the disk has no room for so many bytes."""
        self._log.log_dir.reserve(size, now_ms)

    def append_fetched(self, batches: memoryview, now_ms: int) -> None:
        """Appends batches as the leader has them."""
        self._log.append_as_follower(batches, now_ms)
        self.bytes_since_snapshot += len(batches)

    def truncate_to(self, end_offset: int) -> None:
        """Removes what another leader does not have; durable when this returns."""
        self._log.truncate_to(end_offset)

    def begin_at(self, offset: int) -> None:
        """Empties the log: everything before the offset is in a snapshot."""
        self._log.truncate_fully_and_start_at(offset)
        self.bytes_since_snapshot = 0

    def abort_open_transaction(self, *, epoch: int, now_ms: int) -> None:
        """Ends a transaction whose end was not written, because of a stop or a full disk: its records never count."""
        if self._has_open_transaction:
            (abort,) = record_batches(
                [AbortTransactionRecord(reason="The controller could not finish it")], now_ms=now_ms
            )
            self.append_batch(abort, epoch=epoch, now_ms=now_ms)
            self._has_open_transaction = False

    def pad_to(self, end_offset: int, *, epoch: int, now_ms: int, report: Report) -> None:
        """Fills a log that ends before its snapshot, so that lost offsets are not assigned a second time.

        This is right for a quorum of one only: where others have the missing records, they must be fetched instead.
        """
        missing = end_offset - self._log.log_end_offset
        if missing <= 0:
            return
        report.warning(
            f"{METADATA_PARTITION} ends at offset {self._log.log_end_offset}, before its snapshot at "
            f"{end_offset}: going on from the snapshot",
            missing=missing,
        )
        for start in range(0, missing, _NO_OPS_PER_BATCH):
            (batch,) = record_batches([NoOpRecord()] * min(_NO_OPS_PER_BATCH, missing - start), now_ms=now_ms)
            self.append_batch(batch, epoch=epoch, now_ms=now_ms)
        self._log.advance_high_watermark(end_offset)
        self._log.delete_records(end_offset)

    def flush(self) -> Promise[int]:
        """Returns a promise of the log end offset as it is now, kept when everything before it is durable."""
        end_offset = self._log.log_end_offset
        return self._log.flush().map(lambda _: end_offset)

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Lets what lies before the high watermark count as committed: retention may delete it."""
        self._log.advance_high_watermark(high_watermark)

    # ---- what snapshots make superfluous

    def roll(self, now_ms: int) -> None:
        """Begins a new segment, so that the records a snapshot replaces are in segments that can be deleted."""
        try:
            self._log.roll(now_ms)
        except KafkaError:
            pass  # the log has reported it, and a snapshot is all the more welcome

    def delete_before(self, offset: int) -> None:
        if not self._log.is_offline:
            self._log.delete_records(offset)
