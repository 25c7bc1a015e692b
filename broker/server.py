"""One broker process: puts the parts together, starts them in order, and stops them in the opposite order.

Start: take the ports, open the logs, replay the metadata, lead the quorum, register, and only then accept connections.
Stop: accept no more, answer what is here, flush, leave the mark of a clean shutdown.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from barnabas.broker.acceptor import Acceptor
from barnabas.broker.broker import Broker
from barnabas.broker.compaction_process import CompactionProcess
from barnabas.broker.config import BrokerConfig, BrokerProperties, without_effect
from barnabas.broker.config_describe import DescribedConfig
from barnabas.broker.controller_shell import ControllerShell
from barnabas.broker.descriptors import open_files_max
from barnabas.broker.dispatch import API_VERSIONS, Dispatcher
from barnabas.broker.entropy import Entropy
from barnabas.broker.fetch_sessions import FetchSessions
from barnabas.broker.listeners import Listener
from barnabas.broker.loop import Loop, Time
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.promise import Promise
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.topic_creation import TopicCreation
from barnabas.broker.workers import ThreadWorkers
from barnabas.protocol.errors import InvalidConfig, KafkaError
from barnabas.protocol.messages.create_topics import CreatableTopicConfigs
from barnabas.protocol.types import Uuid, uuid_text
from barnabas.replication.cluster_control import BrokerRegistration
from barnabas.replication.configuration_control import Schema
from barnabas.replication.controller import Controller, ControllerSettings
from barnabas.replication.decision import random_uuid
from barnabas.replication.image import CLUSTER_METADATA_TOPIC, Endpoint, ImageChanges, MetadataImage
from barnabas.replication.metadata_batches import QuorumVoter
from barnabas.replication.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    MetadataLog,
    MetadataLogSettings,
    metadata_log_config,
)
from barnabas.replication.topic_control import TopicDefaults
from barnabas.storage.files import OsFiles
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir, LogManagerConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.seams import Report

_PLAINTEXT = 0
_DRAIN_MS = 5_000
_DRAIN_CHECK_MS = 5


class StopFailed(Exception):
    """The process ends all the same, without the mark of a clean stop: the next start recovers its logs."""


class StorageLost(Exception):
    """No log dir is left, or not the one with the metadata: there is nothing that this broker could still do."""


class BrokerServer:
    """`run` blocks until `stop`; `listeners` says where it listens once it is ready."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        report: Report,
        system_time: Time = time,
        cluster_id: str = "",
        is_alone: bool = False,
    ) -> None:
        """`cluster_id` is for a cluster that is new, instead of a random one. `is_alone`: nobody else uses Python in
        this process."""
        if properties.get("authorizer.class.name"):
            raise InvalidConfig("authorizer.class.name is set, but there are no ACLs yet: remove it to let anybody in")
        self._properties = BrokerProperties(static=properties)
        self._is_alone = is_alone
        self._report = report
        self._random = Entropy()
        self._files = OsFiles()
        self.config: BrokerConfig = self._properties.effective()
        spins = is_alone and (os.cpu_count() or 1) > 1  # on one core the client could not run meanwhile
        self.loop = Loop(self._on_error, system_time=system_time, spins=spins)
        self._workers = ThreadWorkers(self.loop)
        self._acceptor = Acceptor(self.config, loop=self.loop, report=report)
        self.listeners: list[Listener] = []
        self.broker: Broker
        self._logs: LogManager | None = None
        self._metadata: MetadataLog | None = None
        self._controller: Controller
        self._cluster_id = cluster_id
        self._broker_epoch = -1
        self._is_stopping = False
        self._failure: BaseException | None = None

    # Running

    def run(self, on_ready: Callable[[], None]) -> None:
        """Raises what kept the broker from starting, or from going on."""
        try:
            self._start(on_ready)
            if self._failure is None:  # some failures are known before the loop has turned once
                self.loop.run()
        finally:
            self._attempt(self._acceptor.close, self._workers.close)
            if self._logs is not None:
                self._attempt(self._logs.abandon)  # nothing, after a clean stop
            self.loop.close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """On the loop's thread; from another one: `loop.call_from_thread(server.stop)`."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._attempt(self._acceptor.stop_accepting, self._acceptor.stop_reading)
        if self._metadata is not None:
            self._attempt(self.broker.stop_groups, self.broker.replicas.wake_fetchers)
        self._drain(self.loop.now_ms() + _DRAIN_MS)

    def _drain(self, deadline_ms: int) -> None:
        if not self._acceptor.is_idle and self.loop.now_ms() < deadline_ms:
            self.loop.call_later(_DRAIN_CHECK_MS, self._drain, deadline_ms)
            return
        self._attempt(self._acceptor.close)
        if self._metadata is not None:
            self._attempt(self._metadata.close)
        if self._logs is not None:
            self._attempt(partial(self._logs.close, self._broker_epoch), self._check_log_dirs)
        self.loop.stop()

    def _attempt(self, *steps: Callable[[], None]) -> None:
        """Whatever a step of the stop runs into, the others have their turn, and the process ends."""
        for step in steps:
            try:
                step()
            except Exception as error:
                if not isinstance(error, KafkaError):
                    self._on_error(error)
                self._failure = StopFailed(f"the broker could not stop cleanly: {error}")

    def _check_log_dirs(self) -> None:
        assert self._logs is not None
        for log_dir in self._logs.log_dirs:
            if log_dir.error is not None:
                raise log_dir.offline_error()

    def _on_offline(self, log_dir: LogDir) -> None:
        """As Kafka does: a broker that can serve nothing any more ends, so that somebody notices."""
        if self._is_stopping or self._logs is None:
            return
        is_last = all(each.error is not None for each in self._logs.log_dirs)
        if is_last or (self._metadata is not None and self._metadata.log_dir is log_dir):
            what = "the last log dir" if is_last else "the log dir with the metadata"
            self._fail(StorageLost(f"{what}, {log_dir.path}, is offline: {log_dir.error}"))

    def _fail(self, error: BaseException) -> None:
        """Nothing this broker says from here on could be relied upon."""
        self._failure = error
        self._report.error(f"stopping: {error}")
        self.loop.stop()

    def _on_error(self, error: BaseException) -> None:
        from traceback import format_exception

        self._report.error(f"a bug: {error!r}", traceback="".join(format_exception(error)))

    # Starting

    def _start(self, on_ready: Callable[[], None]) -> None:
        if ignored := without_effect(self._properties.static):
            self._report.info(f"these keys have no effect here: {', '.join(ignored)}", keys=ignored)
        self.listeners = self._acceptor.bind()
        logs = self._opened_logs()
        metadata = self._metadata = self._opened_metadata(logs)
        self.broker = self._assembled(logs, metadata)
        self.broker.replicas.adopt()
        metadata.become_leader(lambda error: self._fail(error) if error else None)
        self._register(lambda: self._ready(on_ready))

    def _opened_logs(self) -> LogManager:
        config = self.config
        logs = self._logs = LogManager(
            list(config.log_dirs),
            files=self._files,
            clock=self.loop,
            workers=self._workers,
            report=self._report,
            config=_log_manager_config(config, self._is_alone),
            config_of=self._log_config,
            compactor=CompactionProcess(self.loop, self._workers),
        )
        logs.open()
        for log_dir in logs.log_dirs:
            log_dir.on_offline = self._on_offline
        self._cluster_id = self._found_cluster_id(logs) or self._cluster_id or uuid_text(random_uuid(self._random))
        logs.ensure_meta_properties(self._cluster_id, config.node_id, lambda: random_uuid(self._random))
        return logs

    def _found_cluster_id(self, logs: LogManager) -> str:
        found = (log_dir.meta_properties.cluster_id for log_dir in logs.log_dirs if log_dir.meta_properties)
        known = next(found, "")
        if known and self._cluster_id not in ("", known):
            self._report.warning(f"this is cluster {known} already; the id {self._cluster_id} is for one that is new")
        return known

    def _log_config(self, topic: str) -> LogConfig:
        """For a log that is found on the disk. At first only the metadata log's is known for sure."""
        if topic == CLUSTER_METADATA_TOPIC:
            return metadata_log_config(
                segment_bytes=self.config.metadata_log_segment_bytes, segment_ms=self.config.metadata_log_segment_ms
            )
        return self.config.log_defaults if self._metadata is None else self.broker.replicas.log_config(topic)

    def _opened_metadata(self, logs: LogManager) -> MetadataLog:
        config = self.config
        return MetadataLog(
            logs.create(METADATA_PARTITION, METADATA_TOPIC_ID, self._log_config(CLUSTER_METADATA_TOPIC)),
            MetadataLogSettings(
                node_id=config.node_id,
                cluster_id=self._cluster_id,
                voters=[QuorumVoter(config.node_id, _directory_ids(logs)[0])],
                max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
                max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
            files=self._files,
            clock=self.loop,
            workers=self._workers,
            report=self._report,
            on_commit=self._on_commit,
        )

    def _assembled(self, logs: LogManager, metadata: MetadataLog) -> Broker:
        config = self.config
        replicas = ReplicaManager(
            config.node_id,
            image=metadata.image,
            logs=logs,
            log_defaults=config.log_defaults,
            clock=self.loop,
            report=self._report,
        )
        broker = Broker(
            self._properties,
            image=metadata.image,
            logs=logs,
            replicas=replicas,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, self._random),
            api_versions=API_VERSIONS,
            clock=self.loop,
            random=self._random,
            report=self._report,
            on_reconfigured=self._on_reconfigured,
        )
        self._controller = Controller(
            _controller_settings(config),
            random=self._random,
            describe_topic_configs=lambda _image, configs: _creatable(broker.config_describer.topic(configs), configs),
        )
        broker.controller = ControllerShell(self._controller, metadata, self._fail)
        broker.topic_creation = TopicCreation(broker.controller, lambda: broker.config, self._report)
        broker.reconfigure()
        return broker

    def _on_reconfigured(self, config: BrokerConfig) -> None:
        self.config = config
        self._acceptor.config = config
        if self._logs is not None:
            self._logs.cleaner.configure(_log_manager_config(config, self._is_alone))
        self._controller.settings = _controller_settings(config)

    def _on_commit(self, image: MetadataImage, changes: ImageChanges) -> None:
        self.broker.on_metadata(image, changes)

    def _register(self, then: Callable[[], None]) -> None:
        broker, config, logs = self.broker, self.config, self.broker.logs
        registration = BrokerRegistration(
            broker_id=config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=random_uuid(self._random),
            endpoints={listener.name: _endpoint(listener, config) for listener in self.listeners},
            log_dirs=_directory_ids(logs),
            rack=config.broker_rack,
            previous_broker_epoch=self._previous_broker_epoch(logs),
        )

        def registered(promise: Promise[int]) -> None:
            if promise.error is not None:
                return self._fail(promise.error)
            self._broker_epoch = promise.value
            broker.producer_ids = ProducerIds(config.node_id, promise.value, broker.controller)
            then()

        broker.controller.submit(
            lambda controller, image: controller.register_and_unfence(registration, image)
        ).when_done(registered)

    def _previous_broker_epoch(self, logs: LogManager) -> int:
        """That of the last run if it ended cleanly everywhere: then this broker still has all that it led with."""
        known = self.broker.image.brokers.get(self.config.node_id)
        is_clean = all(log_dir.had_clean_shutdown for log_dir in logs.log_dirs)
        return known.broker_epoch if known is not None and is_clean else -1

    def _ready(self, on_ready: Callable[[], None]) -> None:
        self._acceptor.accept(Dispatcher(self.broker))
        on_ready()
        self.broker.start_groups()


def _log_manager_config(config: BrokerConfig, is_alone: bool) -> LogManagerConfig:
    return LogManagerConfig(
        log_flush_offset_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        log_retention_check_interval_ms=config.log_retention_check_interval_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        producer_id_expiration_check_interval_ms=config.producer_id_expiration_check_interval_ms,
        open_files_max=config.barnabas_max_open_files or open_files_max(is_alone),
        free_bytes_min=config.barnabas_min_free_bytes,
        log_cleaner_enable=config.log_cleaner_enable,
        log_cleaner_backoff_ms=config.log_cleaner_backoff_ms,
        log_cleaner_dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size,
        log_cleaner_io_buffer_load_factor=config.log_cleaner_io_buffer_load_factor,
        log_cleaner_io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )


def _controller_settings(config: BrokerConfig) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id,
        broker_config=config,
        log_config=config.log_defaults,
        group_config=lambda: _group_config_schema(config),
        defaults=TopicDefaults(config.num_partitions, config.default_replication_factor),
        delete_topic_enable=config.delete_topic_enable,
    )


def _group_config_schema(config: BrokerConfig) -> Schema:
    from barnabas.broker.groups.group_config import GroupConfigSchema  # a broker without groups starts without it

    return GroupConfigSchema(config)


def _creatable(configs: Iterable[DescribedConfig], given: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """A new topic's values are told as they were given, as by Kafka; DescribeConfigs tells what was understood."""
    return [
        CreatableTopicConfigs(
            name=config.name,
            value=given.get(config.name, config.value),
            read_only=config.read_only,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
        )
        for config in configs
    ]


def _endpoint(listener: Listener, config: BrokerConfig) -> Endpoint:
    """What other nodes and their clients are told. Our own clients are told what they dialled unless it is set."""
    advertised = config.advertised.get(listener.name, listener)
    return Endpoint(advertised.host or "localhost", advertised.port or listener.port, _PLAINTEXT)


def _directory_ids(logs: LogManager) -> tuple[Uuid, ...]:
    return tuple(log_dir.meta_properties.directory_id for log_dir in logs.log_dirs if log_dir.meta_properties)
