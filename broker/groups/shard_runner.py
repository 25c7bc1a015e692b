"""One shard and the partition that it lives in: loads the shard, then carries out its decisions one after the other.

Rules:
- A decision's records are appended at once, all or none, and replayed; so the next decision knows of them.
- No answer leaves before everything it can have seen is committed. What a crash can take, nobody has been told.
- A load goes on for a few milliseconds at a time: a partition with millions of commits must not hold up the others.
- A partition that cannot be read has no coordinator: skipping what is broken would hand out old offsets for the latest.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from barnabas.broker.config import BrokerConfig
from barnabas.broker.groups.context import GroupContext, Random
from barnabas.broker.groups.result import GroupRecord, Result
from barnabas.broker.groups.shard import GroupShard
from barnabas.broker.groups.timers import GroupTimers, Operation, TimerKey
from barnabas.broker.partition import Partition
from barnabas.broker.promise import Promise, failed
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import CoordinatorNotAvailable, ErrorCode, KafkaError, NotCoordinator, ProtocolError
from barnabas.protocol.group_record_serde import decode_record, encode_key, encode_value
from barnabas.protocol.records import (
    HEADER_BYTES,
    ControlType,
    NewRecord,
    build_batch,
    control_type_of,
    iter_batches,
    iter_records,
)
from barnabas.replication.image import MetadataImage
from barnabas.storage.log import AppendInfo
from barnabas.storage.seams import Clock, Report
from barnabas.storage.validation import MAX_DECOMPRESSED_BYTES

R = TypeVar("R")
Decide = Callable[[GroupShard], Result[R]]

_LOADING_MS = 5
_RECORDS_PER_LOOK = 64
"""How many records are replayed between two looks at the clock."""
_TIMER_RETRY_MS = 500
"""When a timer's records could not be written: a session must end some day even if the disk was full when it did."""
_RECORD_OVERHEAD = 32
"""More than the lengths and deltas of a record take beside its key and value."""

_AS_COORDINATOR_ERROR = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client of the coordinator makes of an error of the log: look for the coordinator elsewhere, or try again."""


class ShardRunner:
    def __init__(
        self,
        partition: Partition,
        *,
        clock: Clock,
        random: Random,
        report: Report,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._report = report
        self._config = config
        self._timers = GroupTimers(clock, self._on_timer)
        self._shard = GroupShard(
            GroupContext(
                timers=self._timers, now_ms=clock.now_ms, random=random, report=report, config=config, image=image
            )
        )
        self._started_ms = clock.monotonic_ms()
        self._last_append: AppendInfo | None = None
        self._loading: Iterator[None] | None = self._load()
        self._failure: KafkaError | None = None

    # ---- loading

    @property
    def is_loaded(self) -> bool:
        return self._loading is None

    def load_some(self) -> None:
        """Goes on with loading for a little while."""
        if self._loading is None:
            return
        deadline_ms = self._clock.monotonic_ms() + _LOADING_MS
        try:
            for _ in self._loading:
                if self._clock.monotonic_ms() >= deadline_ms:
                    return
            self._loading = None
            self._shard.on_loaded()
            self._tell_loaded()
        except (KafkaError, ProtocolError) as error:
            self._loading = None
            name = str(self._partition.topic_partition)
            text = f"{name} cannot be read, its groups have no coordinator: {error}"
            self._report.error(text, topic_partition=name)
            self._failure = CoordinatorNotAvailable(text)

    def _load(self) -> Iterator[None]:
        """Replays the log, with a pause after every few records."""
        log, offset, replayed = self._partition.log, 0, 0
        while offset < log.log_end_offset:
            offset = max(offset, log.log_start_offset)
            found = log.read(offset, self._config().offsets_load_buffer_size, max_offset=log.log_end_offset)
            assert found is not None, "there is something before the end"
            data = memoryview(found.read())
            for position, header in iter_batches(data):
                batch = data[position : position + header.size_bytes]
                for record in iter_records(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES):
                    if header.is_control:
                        is_committed = control_type_of(record) == ControlType.COMMIT
                        self._shard.offsets.end_transaction(header.producer_id, is_committed=is_committed)
                    elif record.key is not None and (decoded := decode_record(record.key, record.value)) is not None:
                        self._shard.replay(*decoded, header.producer_id)
                    replayed += 1
                    if replayed % _RECORDS_PER_LOOK == 0:
                        yield
                offset = header.next_offset

    def _tell_loaded(self) -> None:
        if groups := self._shard.groups_count:
            name, took_ms = str(self._partition.topic_partition), self._clock.monotonic_ms() - self._started_ms
            text = f"{name}: {groups} groups loaded in {took_ms} ms"
            self._report.info(text, topic_partition=name, groups=groups, took_ms=took_ms)

    def unload(self) -> None:
        """The partition is led by another broker now, or gone, or this broker stops."""
        self._loading = None
        self._failure = NotCoordinator(f"this broker does not lead {self._partition.topic_partition}")
        self._timers.clear()
        self._shard.on_unloaded()
        self._timers.clear()

    # ---- running

    def run(self, decide: Decide[R]) -> Promise[R]:
        """The answer to a decision, once it is true. Only when the shard is loaded."""
        assert self.is_loaded, "nobody decides on what is half known"
        try:
            if self._failure is not None:
                raise self._failure
            result = decide(self._shard)
        except KafkaError as error:
            return failed(error)
        return self._carry_out(result)

    def _carry_out(self, result: Result[R]) -> Promise[R]:
        response = result.response
        promise: Promise[R] = response if isinstance(response, Promise) else Promise()

        def finish(error: KafkaError | None) -> None:
            if error is not None:
                error = KafkaError(error.message, _AS_COORDINATOR_ERROR.get(error.code, error.code))
            if result.on_committed is not None:
                result.on_committed(error)
            if isinstance(response, Promise):
                return  # the shard keeps it
            if error is not None:
                promise.fail(error)
            else:
                promise.resolve(response)

        try:
            self._append(result.records)
        except KafkaError as error:
            finish(error)
            return promise
        if result.is_replayed:
            for key, value in result.records:
                self._shard.replay(key, value)
        self._when_committed(finish)
        return promise

    def _append(self, records: Sequence[GroupRecord]) -> None:
        if not records:
            return
        now_ms = self._clock.now_ms()
        codec = CompressionType(self._config().offsets_topic_compression_codec)
        limit = self._partition.log.config.max_message_bytes - HEADER_BYTES
        data = bytearray()
        for batch in _batches(records, now_ms, limit):
            data += build_batch(batch, compression=codec)
        self._last_append = self._partition.append_own(memoryview(data), now_ms=now_ms)

    def _when_committed(self, then: Callable[[KafkaError | None], None]) -> None:
        """When everything that was appended so far is."""
        last = self._last_append
        if last is None or self._partition.is_committed(last):
            then(None)
        else:
            self._partition.when_committed(last, then)

    def _on_timer(self, key: TimerKey, operation: Operation) -> None:
        if (result := operation()) is None:
            return

        def done(promise: Promise[Any]) -> None:
            if not result.is_replayed:
                return  # it has changed the state already, and must not do so twice
            if promise.error is not None and self._failure is None and not self._timers.is_scheduled(key):
                self._timers.schedule(key, _TIMER_RETRY_MS, operation)

        self._carry_out(result).when_done(done)


def _batches(records: Sequence[GroupRecord], now_ms: int, limit: int) -> Iterator[list[NewRecord]]:
    """The records in as many batches as the limit demands."""
    batch: list[NewRecord] = []
    size = 0
    for key, value in records:
        record = NewRecord(encode_key(key), None if value is None else encode_value(value), (), now_ms)
        record_size = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
        if batch and size + record_size > limit:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += record_size
    yield batch
