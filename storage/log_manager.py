"""All logs of a broker: found, opened, made, deleted, and put away when it stops.

Rules:
- After a clean stop nothing is opened at start: a log is opened when it is first asked for, and one by one in the
  background, because retention must reach those that nobody asks for. After any other stop every log is recovered at
  start.
- A log with records that has no recovery point was written by another broker and put here: it is opened at start, for
  it must have one before the mark of the clean stop goes.
- The mark of a clean stop is removed, durably, before anything can be appended. So is what recovery removes. Whether or
  not this start removed anything, names are synced: the last one may have been killed before it came to that.
- The cluster's metadata, not the directories, say which partitions exist: making a log costs no fsync. Its directory
  becomes durable with its first flushed bytes.
- A directory with another topic id than the one asked for is what a lost deletion left; it is moved aside as
  `-stray`.
- Deleting renames the directory and removes it later, in a worker.
"""

from collections.abc import Callable, Iterator, Sequence

from barnabas.protocol.errors import KafkaStorageError, UnknownTopicOrPartition
from barnabas.protocol.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CorruptCheckpoint,
    decode_offsets,
)
from barnabas.storage.cleaner import Cleaner, Compactor
from barnabas.storage.deadlines import DeadlineHeap
from barnabas.storage.file_cache import FileCache
from barnabas.storage.files import Files, Lock, make_durable_dir, replace_file, write_file
from barnabas.storage.flush import FlushPlan, run_each, run_together
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir, LogManagerConfig
from barnabas.storage.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    LOCK_FILE,
    META_PROPERTIES,
    PARTITION_METADATA,
    CorruptMetadata,
    MetaProperties,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_partition_metadata,
)
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.recovery import LoadedLog, LogLoader
from barnabas.storage.seams import Clock, Report, Timer, Workers
from barnabas.storage.segment import LOG_SUFFIX, Segment

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_NAME_MAX = 255
_CLOSED_AT_ONCE = 1_000


class LogDirInUse(Exception):
    """Another broker has the directory."""


class ForeignLogDir(ValueError):
    """The directory belongs to another node or cluster."""


class LogManager:
    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        files: Files,
        clock: Clock,
        workers: Workers,
        report: Report,
        config: LogManagerConfig | None = None,
        config_of: Callable[[str], LogConfig] | None = None,
        compactor: Compactor | None = None,
    ) -> None:
        """`config_of(topic)` is asked for the configuration of logs that are found on disk; by default, the default.
        `compactor` does what compaction has to do; by default, the workers do."""
        config = config or LogManagerConfig()
        default = LogConfig()
        self._config_of = config_of or (lambda topic: default)
        self._files = files
        self._clock = clock
        self._workers = workers
        self._report = report
        self._config = config
        self._cache = FileCache(files, config.open_files_max)
        self._deadlines = DeadlineHeap(clock, self._on_deadline)
        self.cleaner = Cleaner(
            config,
            files=files,
            clock=clock,
            workers=workers,
            report=report,
            compactor=compactor or _worker_compactor(files, workers),
            log_of=self.opened,
        )
        self.log_dirs = [self._log_dir(path) for path in log_dirs]
        self._dirs: dict[TopicPartition, LogDir] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._counts = dict.fromkeys(log_dirs, 0)
        self._locks: list[Lock] = []
        self._unopened: list[TopicPartition] = []
        self._opener: Timer | None = None
        self._renames = 0

    def _log_dir(self, path: str) -> LogDir:
        return LogDir(
            path,
            files=self._files,
            cache=self._cache,
            clock=self._clock,
            workers=self._workers,
            report=self._report,
            config=self._config,
            deadlines=self._deadlines,
            cleaner=self.cleaner,
        )

    # ---- start

    def open(self) -> None:
        """Locks the dirs and finds what is in them; recovers it unless the last stop was clean. Blocks."""
        for log_dir in self.log_dirs:
            try:
                self._lock(log_dir)
                self._open_dir(log_dir)
            except OSError as error:
                if len(self.log_dirs) == 1:
                    self._unlock()
                    raise  # nothing is left to serve
                log_dir.go_offline(error)
            except Exception:
                self._unlock()
                raise
        if self._unopened:
            self._opener = self._clock.call_later(self._config.log_initial_task_delay_ms, self._open_next)

    def _lock(self, log_dir: LogDir) -> None:
        if not self._files.exists(f"{log_dir.path}/{META_PROPERTIES}"):
            make_durable_dir(self._files, log_dir.path)
        try:
            self._locks.append(self._files.lock(f"{log_dir.path}/{LOCK_FILE}"))
        except BlockingIOError:
            raise LogDirInUse(f"{log_dir.path} is in use by another broker") from None

    def _unlock(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def _open_dir(self, log_dir: LogDir) -> None:
        names = self._files.listdir(log_dir.path)
        log_dir.had_clean_shutdown = CLEAN_SHUTDOWN_FILE in names
        if META_PROPERTIES in names:
            log_dir.meta_properties = MetaProperties.from_bytes(
                self._files.read_bytes(f"{log_dir.path}/{META_PROPERTIES}")
            )
        log_dir.recovery_points = self._read_offsets(log_dir, RECOVERY_POINT_CHECKPOINT, names)
        log_dir.log_start_offsets = self._read_offsets(log_dir, LOG_START_OFFSET_CHECKPOINT, names)
        log_dir.cleaner_offsets = self._read_offsets(log_dir, CLEANER_OFFSET_CHECKPOINT, names)
        for name in names:
            self._find(log_dir, name)
        if log_dir.had_clean_shutdown:
            self._adopt_moved(log_dir)
            self._files.remove(f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}")
        self._files.sync_dir(log_dir.path)
        if not log_dir.had_clean_shutdown:
            self._recover(log_dir)

    def _read_offsets(self, log_dir: LogDir, name: str, names: list[str]) -> dict[TopicPartition, int]:
        if name not in names:
            return {}
        try:
            return decode_offsets(self._files.read_bytes(f"{log_dir.path}/{name}"))
        except CorruptCheckpoint as error:
            self._report.warning(f"{log_dir.path}/{name} cannot be read and counts as empty: {error}")
            return {}

    def _find(self, log_dir: LogDir, name: str) -> None:
        if name.endswith(DELETE_SUFFIX):
            self._remove_later(f"{log_dir.path}/{name}", 0)
            return
        topic_partition = parse_topic_partition(name)
        if topic_partition is None:
            return
        if topic_partition in self._dirs:
            other = self._dirs[topic_partition].path
            raise OSError(f"{topic_partition} is in both {other} and {log_dir.path}: delete one of them")
        self._add(log_dir, topic_partition)
        if log_dir.had_clean_shutdown:
            self._unopened.append(topic_partition)

    def _adopt_moved(self, log_dir: LogDir) -> None:
        """A log with records and without a recovery point was written by another broker and put here. Its files are as
        good as the mark says; but once that is gone, gaps that compaction left in it would count as losses."""
        checkpoint = None
        for topic_partition in [name for name in self._unopened if not log_dir.recovery_points.get(name)]:
            if self._dirs[topic_partition] is log_dir and self._measure(log_dir, topic_partition):
                log = self._open_log(topic_partition, is_clean=True)
                checkpoint = log_dir.checkpoint_with(topic_partition, log.recovery_point)
                text = f"{topic_partition}: found with records up to {log.log_end_offset}, written elsewhere"
                self._report.info(text, topic_partition=str(topic_partition))
        if checkpoint is not None:
            log_dir.write(checkpoint)

    def _recover(self, log_dir: LogDir) -> None:
        mine = [topic_partition for topic_partition, owner in self._dirs.items() if owner is log_dir]
        for topic_partition in mine:
            self._open_log(topic_partition, is_clean=False)
        if len(mine) >= self._config.sync_together_min:
            self._files.sync_all()
        else:
            for topic_partition in mine:
                self._files.sync_dir(f"{log_dir.path}/{topic_partition}")
        if mine:
            self._report.info(f"{log_dir.path}: recovered {len(mine)} logs", log_dir=log_dir.path, logs=len(mine))

    def _open_next(self) -> None:
        """Opens one of the logs that nobody asked for yet, and comes back for the next."""
        self._opener = None
        while self._unopened:
            topic_partition = self._unopened.pop()
            log_dir = self._dirs.get(topic_partition)
            if topic_partition not in self._logs and log_dir is not None and log_dir.error is None:
                self.get(topic_partition)
                break
        if self._unopened:
            delay_ms = self._config.log_retention_check_interval_ms / (len(self._unopened) + 1)
            self._opener = self._clock.call_later(delay_ms, self._open_next)

    def ensure_meta_properties(self, cluster_id: str, node_id: int, new_uuid: Callable[[], Uuid]) -> None:
        """Marks new dirs as this node's. ForeignLogDir if one belongs to another cluster or node."""
        for log_dir in self.log_dirs:
            found = log_dir.meta_properties
            if found is None:
                self._mark(log_dir, MetaProperties(cluster_id, node_id, new_uuid()))
            elif (found.cluster_id, found.node_id) != (cluster_id, node_id):
                raise ForeignLogDir(
                    f"{log_dir.path} belongs to node {found.node_id} of cluster {found.cluster_id}, "
                    f"not to node {node_id} of cluster {cluster_id}"
                )
            elif found.directory_id == ZERO_UUID:  # Kafka before 3.7 gave its dirs none
                self._mark(log_dir, found._replace(directory_id=new_uuid()))

    def _mark(self, log_dir: LogDir, meta_properties: MetaProperties) -> None:
        if log_dir.error is not None:
            return
        try:
            replace_file(self._files, f"{log_dir.path}/{META_PROPERTIES}", meta_properties.to_bytes())
        except OSError as error:
            log_dir.go_offline(error)
        log_dir.meta_properties = meta_properties

    # ---- logs

    def partitions(self) -> Iterator[TopicPartition]:
        return iter(self._dirs)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._dirs

    def get(self, topic_partition: TopicPartition) -> Log:
        """The log, opened if need be. UnknownTopicOrPartition, or KafkaStorageError if its dir is offline."""
        log = self._logs.get(topic_partition)
        if log is None:
            log_dir = self._dirs.get(topic_partition)
            if log_dir is None:
                self._check_nothing_is_offline()
                raise UnknownTopicOrPartition(f"there is no log of {topic_partition} here")
            if log_dir.error is not None:
                raise log_dir.offline_error()
            try:
                log = self._open_log(topic_partition, is_clean=log_dir.had_clean_shutdown)
            except OSError as error:
                raise log_dir.go_offline(error) from error
        return log

    def opened(self, topic_partition: TopicPartition) -> Log | None:
        """The log if it is open. One that is not asks for its configuration when it is opened."""
        return self._logs.get(topic_partition)

    def sizes(self, log_dir: LogDir) -> Iterator[tuple[TopicPartition, int]]:
        """The bytes of each log in the dir. One that is not open is measured, not opened."""
        for topic_partition, owner in self._dirs.items():
            if owner is log_dir:
                log = self._logs.get(topic_partition)
                yield topic_partition, self._measure(log_dir, topic_partition) if log is None else log.size_bytes

    def _measure(self, log_dir: LogDir, topic_partition: TopicPartition) -> int:
        entries = self._files.scandir(f"{log_dir.path}/{topic_partition}")
        return sum(entry.size_bytes for entry in entries if entry.name.endswith(LOG_SUFFIX))

    def _open_log(self, topic_partition: TopicPartition, *, is_clean: bool) -> Log:
        log_dir = self._dirs[topic_partition]
        config = self._config_of(topic_partition.topic)
        loaded = LogLoader(log_dir, topic_partition, config, self._clock.now_ms()).load(is_clean=is_clean)
        topic_id = self._read_topic_id(log_dir, topic_partition)
        log = self._logs[topic_partition] = Log(log_dir, topic_partition, topic_id, config, loaded)
        return log

    def _read_topic_id(self, log_dir: LogDir, topic_partition: TopicPartition) -> Uuid | None:
        path = f"{log_dir.path}/{topic_partition}/{PARTITION_METADATA}"
        try:
            return decode_partition_metadata(self._files.read_bytes(path))
        except FileNotFoundError:
            return None
        except CorruptMetadata as error:
            self._report.warning(f"{topic_partition}: {error}", topic_partition=str(topic_partition))
            return None

    def _check_nothing_is_offline(self) -> None:
        """A log that is not found may lie in a dir that could not be opened: nobody may begin it anew elsewhere."""
        for log_dir in self.log_dirs:
            if log_dir.error is not None:
                raise log_dir.offline_error()

    def create(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig, *, is_new: bool = False
    ) -> Log:
        """The log of this partition of this topic; made if there is none.

        `is_new`: the partition was created just now, so that its log cannot lie in a dir that is offline.
        """
        if topic_partition in self._dirs:
            log = self.get(topic_partition)
            if log.topic_id is None:
                self._adopt(log, topic_id)
            if log.topic_id == topic_id:
                log.configure(config)
                return log
            self.move_aside(topic_partition, "it belongs to an earlier topic of that name")
        if not is_new:
            self._check_nothing_is_offline()
            self._tell_if_vanished(topic_partition)
        log_dir = self._emptiest_dir()
        try:
            return self._create(log_dir, topic_partition, topic_id, config)
        except OSError as error:
            raise KafkaStorageError(f"{topic_partition} could not be created in {log_dir.path}: {error}") from error

    def _tell_if_vanished(self, topic_partition: TopicPartition) -> None:
        lost = max(log_dir.recovery_points.get(topic_partition, 0) for log_dir in self.log_dirs)
        if lost:
            text = f"{topic_partition}: its directory is gone, and with it what was stored below offset {lost}"
            self._report.error(text, topic_partition=str(topic_partition), offset=lost)

    def _create(self, log_dir: LogDir, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        log_dir.forget(topic_partition)  # what a crash kept of an earlier one of that name
        path = f"{log_dir.path}/{topic_partition}"
        self._files.makedirs(path)
        metadata = encode_partition_metadata(topic_id)
        write_file(self._files, f"{path}/{PARTITION_METADATA}", metadata, sync=False)
        segment = Segment(path, 0, self._cache, self._clock.now_ms())
        loaded = LoadedLog([segment], 0, 0, 0, ProducerState(), LeaderEpochs(), has_durable_names=False, aborted={})
        log = self._logs[topic_partition] = Log(log_dir, topic_partition, topic_id, config, loaded)
        self._add(log_dir, topic_partition)
        return log

    def _add(self, log_dir: LogDir, topic_partition: TopicPartition) -> None:
        self._dirs[topic_partition] = log_dir
        self._counts[log_dir.path] += 1

    def _emptiest_dir(self) -> LogDir:
        online = [log_dir for log_dir in self.log_dirs if log_dir.error is None]
        if not online:
            raise KafkaStorageError("every log dir is offline")
        return min(online, key=lambda log_dir: self._counts[log_dir.path])

    def _adopt(self, log: Log, topic_id: Uuid) -> None:
        """A crash took the file that named the topic. Nothing else can tell, and the metadata say whose log it is."""
        replace_file(self._files, f"{log.path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))
        log.topic_id = topic_id

    # ---- removal

    def delete(self, topic_partition: TopicPartition) -> None:
        """Renames the directory at once and removes it after file.delete.delay.ms. No error if there is none.

        What lies in a dir that is offline stays there; it is a stray when the dir comes back.
        """
        if topic_partition in self._dirs:
            delay_ms = self._config_of(topic_partition.topic).file_delete_delay_ms
            if (log := self._logs.get(topic_partition)) is not None:
                delay_ms = log.config.file_delete_delay_ms
            target = self._rename(topic_partition, DELETE_SUFFIX)
            self._remove_later(target, delay_ms)

    def move_aside(self, topic_partition: TopicPartition, reason: str) -> None:
        """For a log that the cluster's metadata do not know: a person may want it, nobody else does."""
        target = self._rename(topic_partition, STRAY_SUFFIX)
        text = f"{topic_partition}: {reason}; its log was moved to {target}"
        self._report.warning(text, topic_partition=str(topic_partition))

    def _rename(self, topic_partition: TopicPartition, suffix: str) -> str:
        log_dir = self._dirs[topic_partition]
        if (log := self._logs.pop(topic_partition, None)) is not None:
            log.abandon()
        self._renames += 1
        unique = f"{self._clock.now_ms():016x}{self._renames:016x}"
        rest = f"-{topic_partition.partition}.{unique}{suffix}"
        target = f"{log_dir.path}/{topic_partition.topic[: _NAME_MAX - len(rest)]}{rest}"
        try:
            if log_dir.error is None:
                self._files.rename(f"{log_dir.path}/{topic_partition}", target)
        except OSError as error:
            log_dir.go_offline(error)
        del self._dirs[topic_partition]
        self._counts[log_dir.path] -= 1
        log_dir.forget(topic_partition)
        return target

    def _remove_later(self, path: str, delay_ms: int) -> None:
        self._clock.call_later(delay_ms, self._workers.run, lambda: self._files.rmtree(path), lambda _, error: None)

    # ---- deadlines

    def _on_deadline(self, topic_partition: TopicPartition, deadline_ms: int, now_ms: int) -> None:
        log = self._logs.get(topic_partition)
        if log is not None and log.deadline_ms == deadline_ms:
            try:
                log.run_deadlines(now_ms)
            except KafkaStorageError:
                pass  # reported where it was found

    # ---- the end

    def close(self, broker_epoch: int = -1) -> None:
        """Makes everything durable and leaves the mark of a clean stop in every dir where that worked. Blocks."""
        if self._opener is not None:
            self._opener.cancel()
        self.cleaner.close()
        self._deadlines.clear()
        self._close_logs()
        for log_dir in self.log_dirs:
            if log_dir.error is None:
                self._close_dir(log_dir, broker_epoch)
        self.abandon()

    def abandon(self) -> None:
        """Gives the dirs up as they are. Without the mark of a clean stop the next start recovers them."""
        if self._opener is not None:
            self._opener.cancel()
        self.cleaner.close()
        self._deadlines.clear()
        self._cache.forget_all()
        self._unlock()

    def _close_logs(self) -> None:
        """Some at a time: each that has something to write holds a file open until it is written."""
        logs, at_once = list(self._logs.values()), min(_CLOSED_AT_ONCE, self._config.open_files_max // 4 + 1)
        for start in range(0, len(logs), at_once):
            plans = {log: self._plan_of_close(log) for log in logs[start : start + at_once]}
            changed = [plan for plan in plans.values() if plan is not None]
            are_many = len(changed) >= self._config.sync_together_min
            failed = run_together(self._files, changed) if are_many else run_each(changed)
            for log, plan in plans.items():
                log.closed(plan, failed.get(plan) if plan is not None else None)

    def _plan_of_close(self, log: Log) -> FlushPlan | None:
        try:
            return log.plan_of_close()
        except KafkaStorageError as error:
            log.log_dir.go_offline(error)  # without a mark of a clean stop: not everything is on the disk
            return None

    def _close_dir(self, log_dir: LogDir, broker_epoch: int) -> None:
        try:
            log_dir.write_checkpoints()
            replace_file(self._files, f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}", encode_clean_shutdown(broker_epoch))
        except OSError as error:
            log_dir.go_offline(error)


def _worker_compactor(files: Files, workers: Workers) -> Compactor:
    from barnabas.storage.worker_compactor import WorkerCompactor

    return WorkerCompactor(files, workers)


def parse_topic_partition(name: str) -> TopicPartition | None:
    """From a directory's name; None if it is no partition's."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))
