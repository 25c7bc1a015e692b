"""The file side of `__cluster_metadata-0`: what is written to the log, how it is made durable, and how it is read back.

Nothing here knows images, leaders or voters: the caller decides who may append and what that means.
"""

from collections.abc import Iterator, Sequence

from barnabas.base.promise import Promise
from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import KafkaError, KafkaStorageError
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.metadata.batches import BATCH_BYTES_MAX, checked_batches, record_batches
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"
READ_BYTES = 4 * 1024 * 1024


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
    __slots__ = ("_batch_bytes_max", "_log", "bytes_since_snapshot")

    def __init__(self, log: Log, *, batch_bytes_max: int = BATCH_BYTES_MAX) -> None:
        self._log = log
        self._batch_bytes_max = batch_bytes_max
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

    # ---- writing

    def batches_of(self, records: Sequence[MetadataRecord], now_ms: int) -> list[bytearray]:
        """Returns the batches that a leader appends for these records."""
        return record_batches(records, now_ms=now_ms, batch_bytes_max=self._batch_bytes_max)

    def append_batch(self, batch: bytearray, *, epoch: int, now_ms: int) -> None:
        self._log.append_as_coordinator(memoryview(batch), leader_epoch=epoch, now_ms=now_ms)
        self.bytes_since_snapshot += len(batch)

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
