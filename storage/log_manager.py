"""All logs of a broker: looked up, created, deleted, and closed when it stops. `log_opening.py` finds them at start.

Rules:
- The cluster's metadata, not the directories, say which partitions exist: creating a log costs no fsync, unless there
  was one of that name a moment ago. Its directory becomes durable with its first flushed bytes.
- A directory with another topic id than the one asked for was left by a lost deletion; it is moved aside as
  `-stray`.
- Deleting renames the directory and removes it later, in a worker.
"""

from collections.abc import Callable, Iterator, Sequence

from barnabas.base.deadlines import Deadlines
from barnabas.base.environment import Environment
from barnabas.base.files import replace_file, write_file
from barnabas.protocol.errors import KafkaStorageError, UnknownTopicOrPartition
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage.compaction.cleaner import Cleaner
from barnabas.storage.flush_plan import FlushPlan, run_each, run_together
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir, SharedParts
from barnabas.storage.log_manager_config import LogManagerConfig, LogManagerLimits
from barnabas.storage.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    PARTITION_METADATA,
    CorruptMetadata,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_partition_metadata,
)
from barnabas.storage.opening.log_opening import DELETE_SUFFIX, LogOpening, ensure_meta_properties
from barnabas.storage.opening.recovery import LogLoader, empty_log
from barnabas.storage.segments.file_cache import FileCache
from barnabas.storage.segments.segment import LOG_SUFFIX, Segment

STRAY_SUFFIX = "-stray"
_NAME_MAX = 255
_CLOSED_AT_ONCE = 1_000


class LogManager:
    def __init__(
        self,
        log_dirs: Sequence[str],
        environment: Environment,
        config: LogManagerConfig | None = None,
        *,
        limits: LogManagerLimits | None = None,
        config_of: Callable[[str], LogConfig] | None = None,
    ) -> None:
        """Asks `config_of(topic)` for the configuration of logs found on disk; without it they get the default."""
        default = LogConfig()
        self._config_of = config_of or (lambda topic: default)
        self._files = environment.files
        self._clock = environment.clock
        self._workers = environment.workers
        self._report = environment.report
        config = config or LogManagerConfig()
        self.limits = limits or LogManagerLimits()
        self._cache = FileCache(self._files, self.limits.open_files_max)
        self._deadlines: Deadlines[TopicPartition] = Deadlines(self._clock, self._clock.monotonic_ms, self._on_deadline)
        self.cleaner = Cleaner(config, environment, self.opened)
        shared = SharedParts(environment, config, self.limits, self._cache, self._deadlines, self.cleaner)
        self.log_dirs = [LogDir(path, shared) for path in log_dirs]
        self._opening = LogOpening(self)
        self._dirs: dict[TopicPartition, LogDir] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._counts = dict.fromkeys(log_dirs, 0)
        self._renames = 0

    # ---- start

    def open(self, node_id: int | None = None) -> None:
        """Locks the dirs and finds what is in them; recovers it unless the last stop was clean. Blocks. Raises
        ForeignLogDir, and has changed nothing, if a dir belongs to another node than the one that is named."""
        self._opening.open(self.log_dirs, node_id)

    def ensure_meta_properties(self, cluster_id: str, node_id: int, new_uuid: Callable[[], Uuid]) -> None:
        """Marks new dirs as this node's. Raises ForeignLogDir if one belongs to another cluster or node."""
        ensure_meta_properties(self.log_dirs, cluster_id, node_id, new_uuid)

    # ---- logs

    def partitions(self) -> Iterator[TopicPartition]:
        return iter(self._dirs)

    def dir_of(self, topic_partition: TopicPartition) -> LogDir | None:
        return self._dirs.get(topic_partition)

    def in_dir(self, log_dir: LogDir) -> list[TopicPartition]:
        return [topic_partition for topic_partition, owner in self._dirs.items() if owner is log_dir]

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._dirs

    def get(self, topic_partition: TopicPartition) -> Log:
        """Returns the log, and opens it if need be. Raises UnknownTopicOrPartition, or KafkaStorageError if offline."""
        log_dir = self._dirs.get(topic_partition)
        if log_dir is None:
            self._check_nothing_is_offline()
            raise UnknownTopicOrPartition(f"there is no log of {topic_partition} here")
        if log_dir.error is not None:
            raise log_dir.offline_error()
        log = self._logs.get(topic_partition)
        if log is None:
            try:
                log = self.open_log(topic_partition, is_clean=log_dir.had_clean_shutdown)
                log_dir.write_found_ends()
            except OSError as error:
                raise log_dir.failed(error) from error
        return log

    def opened(self, topic_partition: TopicPartition) -> Log | None:
        """Returns the log if it is open. Any other asks for its configuration when it is opened."""
        return self._logs.get(topic_partition)

    def sizes(self, log_dir: LogDir) -> Iterator[tuple[TopicPartition, int]]:
        """Yields the bytes of each log in the dir. One that is not open is measured, not opened."""
        for topic_partition in self.in_dir(log_dir):
            log = self._logs.get(topic_partition)
            yield topic_partition, self.measure(log_dir, topic_partition) if log is None else log.size_bytes

    def measure(self, log_dir: LogDir, topic_partition: TopicPartition) -> int:
        entries = self._files.scandir(f"{log_dir.path}/{topic_partition}")
        return sum(entry.size_bytes for entry in entries if entry.name.endswith(LOG_SUFFIX))

    def open_log(self, topic_partition: TopicPartition, *, is_clean: bool) -> Log:
        """Opens a log. What is lost of it is noted: `write_found_ends` of its dir is the caller's."""
        log_dir = self._dirs[topic_partition]
        config = self._config_of(topic_partition.topic)
        loaded = LogLoader(log_dir, topic_partition, config, self._clock.now_ms()).load(is_clean=is_clean)
        log_dir.found_end(topic_partition, loaded.log_end_offset)
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
        """Raises if a dir is offline: a log that is not found may lie there, and must not be begun again elsewhere."""
        for log_dir in self.log_dirs:
            if log_dir.error is not None:
                raise log_dir.offline_error()

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        is_new: bool = False,
        directory: Uuid | None = None,
    ) -> Log:
        """Returns the log of this partition of this topic; creates it if there is none.

        `is_new` says that the partition was created just now: its log cannot lie in a dir that is offline. Nor can one
        that is to lie in the dir with the id `directory`, if that is online.
        """
        if topic_partition in self._dirs:
            log = self.get(topic_partition)
            if log.topic_id is None and self._may_be_adopted(log):
                self._adopt(log, topic_id)
            if log.topic_id == topic_id:
                log.configure(config)
                return log
            self.move_aside(topic_partition, _whose(log))
        log_dir = self._online_dir(directory)
        if not is_new:
            if log_dir is None:
                self._check_nothing_is_offline()
            self._tell_if_vanished(topic_partition)
        log_dir = log_dir or self._emptiest_dir()
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
        log_dir.begin(topic_partition)
        path = f"{log_dir.path}/{topic_partition}"
        self._files.makedirs(path)
        metadata = encode_partition_metadata(topic_id)
        write_file(self._files, f"{path}/{PARTITION_METADATA}", metadata, sync=False)
        segment = Segment(path, 0, self._cache, self._clock.now_ms())
        log = self._logs[topic_partition] = Log(log_dir, topic_partition, topic_id, config, empty_log(segment))
        self.add(log_dir, topic_partition)
        return log

    def add(self, log_dir: LogDir, topic_partition: TopicPartition) -> None:
        self._dirs[topic_partition] = log_dir
        self._counts[log_dir.path] += 1

    def _online_dir(self, directory: Uuid | None) -> LogDir | None:
        return next((each for each in self.log_dirs if each.error is None and each.directory_id == directory), None)

    def _emptiest_dir(self) -> LogDir:
        online = [log_dir for log_dir in self.log_dirs if log_dir.error is None]
        if not online:
            raise KafkaStorageError("every log dir is offline")
        return min(online, key=lambda log_dir: self._counts[log_dir.path])

    def _may_be_adopted(self, log: Log) -> bool:
        """Returns whether a log without a name is that of the topic of now. The file that names it is durable with the
        first bytes that are: if any are, it was lost otherwise. If none are, a power cut took it, and perhaps with it
        that the topic was deleted since."""
        log_dir, name = log.log_dir, log.topic_partition
        is_flushed = log_dir.had_clean_shutdown or log_dir.recovery_points.get(name, 0) > 0
        return is_flushed or log.log_end_offset == 0

    def _adopt(self, log: Log, topic_id: Uuid) -> None:
        """Writes the file that names the topic again."""
        try:
            replace_file(self._files, f"{log.path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))
        except OSError as error:
            raise KafkaStorageError(f"{log.topic_partition} could not be named again: {error}") from error
        log.topic_id = topic_id

    # ---- removal

    def delete(self, topic_partition: TopicPartition) -> None:
        """Renames the directory at once and removes it after file.delete.delay.ms. Does nothing if there is none.

        A log in a dir that is offline stays there; it is a stray when the dir comes back.
        """
        if topic_partition in self._dirs:
            delay_ms = self._config_of(topic_partition.topic).file_delete_delay_ms
            if (log := self._logs.get(topic_partition)) is not None:
                delay_ms = log.config.file_delete_delay_ms
            target = self._rename(topic_partition, DELETE_SUFFIX)
            self.remove_later(target, delay_ms)

    def move_aside(self, topic_partition: TopicPartition, reason: str) -> None:
        """Moves a log aside that the cluster's metadata do not know: a person may want it, nobody else does."""
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

    def remove_later(self, path: str, delay_ms: int) -> None:
        self._clock.call_later(delay_ms, self._remove, path)

    def _remove(self, path: str) -> None:
        self._workers.run(lambda: self._files.rmtree(path))

    # ---- deadlines

    def _on_deadline(self, topic_partition: TopicPartition, deadline_ms: int, now_ms: int) -> None:
        log = self._logs.get(topic_partition)
        if log is not None and log.maintenance.deadline_ms == deadline_ms:
            try:
                log.maintenance.run_deadlines(now_ms)
            except KafkaStorageError:
                pass  # reported where it was found

    # ---- the end

    def close(self, broker_epoch: int = -1) -> None:
        """Makes everything durable and leaves the mark of a clean stop in every dir where that worked. Blocks."""
        self._opening.stop()
        self.cleaner.close()
        self._deadlines.clear()
        self._close_logs()
        for log_dir in self.log_dirs:
            if log_dir.error is None:
                self._close_dir(log_dir, broker_epoch)
        self.abandon()

    def abandon(self) -> None:
        """Gives the dirs up as they are. Without the mark of a clean stop the next start recovers them."""
        self._opening.stop()
        self.cleaner.close()
        self._deadlines.clear()
        self._cache.forget_all()
        self._opening.unlock()

    def _close_logs(self) -> None:
        """Closes some at a time: each that has something to write holds a file open until it is written."""
        logs, at_once = list(self._logs.values()), min(_CLOSED_AT_ONCE, self.limits.open_files_max // 4 + 1)
        for start in range(0, len(logs), at_once):
            plans = {log: self._plan_of_close(log) for log in logs[start : start + at_once]}
            changed = [plan for plan in plans.values() if plan is not None]
            are_many = len(changed) >= self.limits.sync_together_min
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


def _whose(log: Log) -> str:
    """Returns why a log is not that of a topic."""
    if log.topic_id is None:
        return "a crash took the file that names its topic, and nothing of it was flushed"
    return "it belongs to an earlier topic of that name"
