"""Finds the logs of a broker when it starts, and recovers them if the last stop was not clean.

Rules:
- After a clean stop nothing is opened at start: a log is opened when it is first asked for, and one by one in the
  background, because retention must reach those that nobody asks for. After any other stop every log is recovered at
  start.
- A log with records that has no recovery point was written by another broker and put here: it is opened at start,
  because it must have one before the mark of the clean stop goes.
- Where a dir had failed nothing is taken from the page cache: it may show what an fsync could not write.
- The mark of a clean stop is removed, durably, before anything can be appended. So is what recovery removes. Whether or
  not this start removed anything, names are synced: the last start may have been killed before it synced them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.base.environment import Timer
from barnabas.base.files import Lock, make_durable_dir, replace_file
from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    Checkpoint,
    CorruptCheckpoint,
    decode_offsets,
)
from barnabas.storage.log_dir import LogDir
from barnabas.storage.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    FAILED_DIR_FILE,
    LOCK_FILE,
    META_PROPERTIES,
    MetaProperties,
    decode_clean_shutdown,
)

if TYPE_CHECKING:
    from barnabas.storage.log_manager import LogManager

DELETE_SUFFIX = "-delete"
_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
)
"""In the order of a `Checkpoint`'s fields."""


class LogDirInUse(Exception):
    """Another broker has the directory."""


class ForeignLogDir(ValueError):
    """The directory belongs to another node or cluster."""


class LogOpening:
    def __init__(self, logs: "LogManager") -> None:
        self._logs = logs
        self._locks: list[Lock] = []
        self._unopened: list[TopicPartition] = []
        self._timer: Timer | None = None

    def open(self, log_dirs: Sequence[LogDir], node_id: int | None) -> None:
        """Opens dirs that belong to this node, if one is named. Nothing is changed in any if one belongs to another."""
        try:
            self._with_each(log_dirs, self._lock)
            if node_id is not None:
                check_owner(log_dirs, node_id)
            self._with_each(log_dirs, self._open_dir)
        except Exception:
            self.unlock()
            raise
        if self._unopened:
            delay_ms = self._logs.limits.initial_task_delay_ms
            self._timer = log_dirs[0].clock.call_later(delay_ms, self._open_next, log_dirs[0])

    def _with_each(self, log_dirs: Sequence[LogDir], step: Callable[[LogDir], None]) -> None:
        for log_dir in log_dirs:
            try:
                if log_dir.error is None:
                    step(log_dir)
            except OSError as error:
                if len(log_dirs) == 1:
                    raise  # nothing is left to serve
                log_dir.go_offline(error)

    def _lock(self, log_dir: LogDir) -> None:
        if not log_dir.files.exists(f"{log_dir.path}/{META_PROPERTIES}"):
            make_durable_dir(log_dir.files, log_dir.path)
        try:
            self._locks.append(log_dir.files.lock(f"{log_dir.path}/{LOCK_FILE}"))
        except BlockingIOError:
            raise LogDirInUse(f"{log_dir.path} is in use by another broker") from None
        meta_properties = f"{log_dir.path}/{META_PROPERTIES}"
        if log_dir.files.exists(meta_properties):
            log_dir.meta_properties = MetaProperties.from_bytes(log_dir.files.read_bytes(meta_properties))

    def unlock(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def _open_dir(self, log_dir: LogDir) -> None:
        entries = log_dir.files.scandir(log_dir.path)
        names = [entry.name for entry in entries]
        log_dir.had_clean_shutdown = CLEAN_SHUTDOWN_FILE in names
        log_dir.distrusts_cache = FAILED_DIR_FILE in names
        log_dir.read(Checkpoint(0, *(_read_offsets(log_dir, name, names) for name in _CHECKPOINTS)))
        for name, size_bytes in entries:
            if size_bytes < 0:  # a file may have any name: a crash leaves core-4711
                self._find(log_dir, name)
        if log_dir.had_clean_shutdown:
            self._adopt_moved(log_dir)
            mark = f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}"
            log_dir.clean_shutdown_epoch = decode_clean_shutdown(log_dir.files.read_bytes(mark))
            log_dir.files.remove(mark)
        log_dir.files.sync_dir(log_dir.path)
        if not log_dir.had_clean_shutdown:
            self._recover(log_dir)
        log_dir.files.remove(f"{log_dir.path}/{FAILED_DIR_FILE}")

    def _find(self, log_dir: LogDir, name: str) -> None:
        if name.endswith(DELETE_SUFFIX):
            self._logs.remove_later(f"{log_dir.path}/{name}", 0)
            return
        topic_partition = parse_topic_partition(name)
        if topic_partition is None:
            return
        if (other := self._logs.dir_of(topic_partition)) is not None:
            raise OSError(f"{topic_partition} is in both {other.path} and {log_dir.path}: delete one of them")
        self._logs.add(log_dir, topic_partition)
        if log_dir.had_clean_shutdown:
            self._unopened.append(topic_partition)

    def _adopt_moved(self, log_dir: LogDir) -> None:
        """Gives a recovery point to each log with records that has none: another broker wrote it. Its files are as good
        as the mark says; but once that is gone, gaps that compaction left in it would count as losses."""
        checkpoint = None
        for topic_partition in [name for name in self._unopened if not log_dir.recovery_points.get(name)]:
            if self._logs.dir_of(topic_partition) is log_dir and self._logs.measure(log_dir, topic_partition):
                log = self._logs.open_log(topic_partition, is_clean=True)
                checkpoint = log_dir.checkpoint_with(topic_partition, log.recovery_point)
                text = f"{topic_partition}: found with records up to {log.log_end_offset}, written elsewhere"
                log_dir.report.info(text, topic_partition=str(topic_partition))
        if checkpoint is not None:
            log_dir.write(checkpoint)

    def _recover(self, log_dir: LogDir) -> None:
        mine = self._logs.in_dir(log_dir)
        for topic_partition in mine:
            self._logs.open_log(topic_partition, is_clean=False)
        log_dir.write_found_ends()
        if len(mine) >= self._logs.limits.sync_together_min:
            log_dir.files.sync_all()
        else:
            for topic_partition in mine:
                log_dir.files.sync_dir(f"{log_dir.path}/{topic_partition}")
        if mine:
            log_dir.report.info(f"{log_dir.path}: recovered {len(mine)} logs", log_dir=log_dir.path, logs=len(mine))

    def _open_next(self, any_dir: LogDir) -> None:
        """Opens one of the logs that nobody has asked for so far, and schedules the next."""
        self._timer = None
        while self._unopened:
            topic_partition = self._unopened.pop()
            log_dir = self._logs.dir_of(topic_partition)
            if self._logs.opened(topic_partition) is None and log_dir is not None and log_dir.error is None:
                try:
                    self._logs.get(topic_partition)
                except KafkaStorageError:
                    continue  # the log dir has reported it
                break
        if self._unopened:
            delay_ms = any_dir.config.log_retention_check_interval_ms / (len(self._unopened) + 1)
            self._timer = any_dir.clock.call_later(delay_ms, self._open_next, any_dir)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _read_offsets(log_dir: LogDir, name: str, names: list[str]) -> dict[TopicPartition, int]:
    if name not in names:
        return {}
    try:
        return decode_offsets(log_dir.files.read_bytes(f"{log_dir.path}/{name}"))
    except CorruptCheckpoint as error:
        log_dir.report.warning(f"{log_dir.path}/{name} cannot be read and counts as empty: {error}")
        return {}


def ensure_meta_properties(
    log_dirs: Sequence[LogDir], cluster_id: str, node_id: int, new_uuid: Callable[[], Uuid]
) -> None:
    """Marks new dirs as this node's. Raises ForeignLogDir if one belongs to another cluster or node."""
    check_owner(log_dirs, node_id, cluster_id)
    for log_dir in log_dirs:
        found = log_dir.meta_properties
        if found is None:
            _mark(log_dir, MetaProperties(cluster_id, node_id, new_uuid()))
        elif found.directory_id == ZERO_UUID:  # Kafka before 3.7 gave its dirs none
            _mark(log_dir, found._replace(directory_id=new_uuid()))


def check_owner(log_dirs: Sequence[LogDir], node_id: int, cluster_id: str | None = None) -> None:
    """Raises ForeignLogDir if a dir belongs to another node, or not to this cluster, or not to that of the others."""
    for log_dir in log_dirs:
        found = log_dir.meta_properties
        if found is not None:
            cluster_id = cluster_id or found.cluster_id
            if (found.cluster_id, found.node_id) != (cluster_id, node_id):
                raise ForeignLogDir(
                    f"{log_dir.path} belongs to node {found.node_id} of cluster {found.cluster_id}, "
                    f"not to node {node_id} of cluster {cluster_id}"
                )


def _mark(log_dir: LogDir, meta_properties: MetaProperties) -> None:
    if log_dir.error is not None:
        return
    try:
        replace_file(log_dir.files, f"{log_dir.path}/{META_PROPERTIES}", meta_properties.to_bytes())
    except OSError as error:
        log_dir.go_offline(error)
    log_dir.meta_properties = meta_properties


def parse_topic_partition(name: str) -> TopicPartition | None:
    """Returns the partition that a directory is named after; None if it is none's."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal() or partition != str(int(partition)):
        return None
    return TopicPartition(topic, int(partition))
