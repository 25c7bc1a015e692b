"""One broker process: puts the parts together, starts them in order, and stops them in the opposite order.

Start: take the ports, open the logs, replay the metadata, lead the quorum, register, and only then accept connections.
Stop: accept no more, answer what is here, flush, leave the mark of a clean shutdown.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment, report_bug
from barnabas.base.promise import Promise
from barnabas.base.uuids import random_uuid
from barnabas.broker.cluster import metadata_quorum
from barnabas.broker.cluster.metadata_quorum import MetadataQuorum
from barnabas.broker.cluster.to_controller import ToController
from barnabas.broker.config.broker_config import BrokerConfig, without_effect
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.dispatch import Dispatcher
from barnabas.broker.network.acceptor import Acceptor
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.listeners import Listener
from barnabas.broker.network.session import ListenerType
from barnabas.broker.node import Node
from barnabas.protocol.errors import ErrorCode, InvalidConfig, KafkaError
from barnabas.protocol.messages import broker_registration
from barnabas.protocol.types import Uuid, uuid_text
from barnabas.replication.controller.cluster_control import FEATURES_OF_A_NODE
from barnabas.replication.controller.quorum_controller import QuorumController
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerLimits

if TYPE_CHECKING:
    from barnabas.broker.cluster.auto_join import AutoJoin

_PLAINTEXT = 0
_DRAIN_MS = 5_000
_DRAIN_CHECK_MS = 5
_HAND_OVER_MS = 500


class StopFailed(Exception):
    """The process ends all the same, without the mark of a clean stop: the next start recovers its logs."""


class StorageLost(Exception):
    """No log dir is left, or not the one with the metadata: there is nothing that this broker could still do."""


class NotRegistered(Exception):
    """The cluster refuses this broker."""


class BrokerServer:
    """One broker in the environment it is handed. Somebody else makes that environment move: `BrokerProcess` in
    production, a simulated world in tests.

    `listeners` says where it listens once it is ready. `ended` is kept when the broker has stopped, or fails with the
    error that ended it; after that, `abandon` gives up what is left.
    """

    def __init__(self, properties: Mapping[str, str], environment: Environment, *, cluster_id: str = "") -> None:
        """Takes as `cluster_id` the id that a new cluster gets, instead of a random one."""
        if properties.get("authorizer.class.name"):
            raise InvalidConfig(
                "authorizer.class.name is set, but ACLs are not supported so far: remove it to let anybody in"
            )
        self._static = properties
        self._environment = environment
        self._clock = environment.clock
        self._report = environment.report
        self.configuration = DynamicConfig(properties, environment.report)
        buffers = self._buffers = Buffers()
        self._acceptor = Acceptor(self.config, environment, buffers)
        self._controller_acceptor = Acceptor(self.config, environment, buffers, is_limited=False)
        self._metadata_quorum = MetadataQuorum(self.configuration, environment, buffers)
        self.listeners: list[Listener] = []
        self.node: Node
        self._to_controller: ToController
        self._logs: LogManager | None = None
        self._quorum: QuorumController | None = None
        self._auto_join: AutoJoin | None = None
        self._cluster_id = cluster_id
        self._is_stopping = False
        self._failure: Exception | None = None
        self.ended: Promise[None] = Promise()

    @property
    def config(self) -> BrokerConfig:
        return self.configuration.current

    # ---- stopping

    def stop(self) -> None:
        """Begins to stop; `ended` says when that is done. A second call does nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._quorum is None:
            return self._stop_serving()
        self.node.leave().when_done(lambda _: self._stop_serving())

    def _stop_serving(self) -> None:
        self._attempt(self._acceptor.stop_accepting, self._acceptor.stop_reading)
        if self._quorum is not None:
            self._attempt(self.node.coordinators.stop, self.node.replicas.wake_fetchers, self.node.lifecycle.close)
        self._drain(self._clock.monotonic_ms() + _DRAIN_MS)

    def _drain(self, deadline_ms: int) -> None:
        if not self._acceptor.is_idle and self._clock.monotonic_ms() < deadline_ms:
            self._clock.call_later(_DRAIN_CHECK_MS, self._drain, deadline_ms)
            return
        self._attempt(self._acceptor.close)
        if self._quorum is not None:
            self._attempt(self._quorum.driver.shut_down)
        self._hand_over(self._clock.monotonic_ms() + _HAND_OVER_MS)

    def _leave_quorum(self) -> None:
        assert self._quorum is not None
        if self._auto_join is not None:
            self._auto_join.close()
        self._attempt(self.node.lifecycle.close, self._to_controller.close, self._quorum.close)
        self._attempt(self.node.stop_watching, self.node.coordinators.close, self._metadata_quorum.peers.close)

    def _hand_over(self, deadline_ms: int) -> None:
        """Waits a moment until the voters know that this controller has resigned: then they need not find out."""
        is_handing_over = self._quorum is not None and self._quorum.driver.is_handing_over
        if is_handing_over and self._clock.monotonic_ms() < deadline_ms:
            self._clock.call_later(_DRAIN_CHECK_MS, self._hand_over, deadline_ms)
            return
        broker_epoch = -1
        if self._quorum is not None:
            self._attempt(self.node.replicas.close)
            self._leave_quorum()
            broker_epoch = self.node.lifecycle.broker_epoch
        self._attempt(self._controller_acceptor.close)
        if self._logs is not None:
            self._attempt(partial(self._logs.close, broker_epoch), self._check_log_dirs)
        self._end()

    def abandon(self) -> None:
        """Closes connections and files as they are, when nothing runs any more. After a clean stop there are none."""
        self._attempt(self._acceptor.close, self._controller_acceptor.close)
        if self._quorum is not None:
            self._attempt(self.node.replicas.close)
            self._leave_quorum()
        if self._logs is not None:
            self._attempt(self._logs.abandon)

    def _end(self) -> None:
        if self.ended.done:
            return
        if self._failure is not None:
            self.ended.fail(self._failure)
        else:
            self.ended.resolve(None)

    def _attempt(self, *steps: Callable[[], None]) -> None:
        """Takes every step of the stop, whatever those before it ran into."""
        for step in steps:
            try:
                step()
            except Exception as error:
                if not isinstance(error, KafkaError):
                    report_bug(self._report, error)
                self._failure = StopFailed(f"the broker could not stop cleanly: {error}")

    def _check_log_dirs(self) -> None:
        assert self._logs is not None
        for log_dir in self._logs.log_dirs:
            if log_dir.error is not None:
                raise log_dir.offline_error()

    def _on_offline(self, log_dir: LogDir) -> None:
        """Ends a broker that can serve nothing any more, as Kafka does, so that somebody notices."""
        if self._is_stopping or self._logs is None:
            return
        is_last = all(each.error is not None for each in self._logs.log_dirs)
        if is_last or (self._quorum is not None and self._quorum.log.log_dir is log_dir):
            what = "the last log dir" if is_last else "the log dir with the metadata"
            self._fail(StorageLost(f"{what}, {log_dir.path}, is offline: {log_dir.error}"))
        elif self._quorum is not None:
            self._clock.call_soon(self.node.on_log_dir_failed, log_dir)  # whoever met the failure goes on first
            self._clock.call_later(self.config.log_dir_failure_timeout_ms, self._end_if_unknown, log_dir)

    def _end_if_unknown(self, log_dir: LogDir) -> None:
        """Ends a broker whose controller could not be told: others would wait for leaders that cannot lead."""
        is_known = log_dir.directory_id is None or self.node.lifecycle.has_told_of(log_dir.directory_id)
        if not is_known and not self._is_stopping and not self.ended.done:
            self._fail(StorageLost(f"no controller could be told that {log_dir.path} is offline: {log_dir.error}"))

    def _fail(self, error: BaseException) -> None:
        """Ends at once: nothing this broker says from here on could be relied upon."""
        assert isinstance(error, Exception), repr(error)
        self._failure = error
        self._report.error(f"stopping: {error}")
        self._end()

    # ---- starting

    def start(self, on_ready: Callable[[], None]) -> None:
        """Begins to start, and calls `on_ready` when clients are served. Raises if it cannot start at all."""
        if ignored := without_effect(self._static):
            self._report.info(f"these keys have no effect here: {', '.join(ignored)}", keys=ignored)
        self.listeners = self._acceptor.bind(self.config.client_listeners)
        controller_listeners = self._controller_acceptor.bind(self.config.controller_listeners)
        logs = self._opened_logs()
        self.configuration.subscribe(self._on_configuration)
        quorum = self._metadata_quorum.open(logs, self._cluster_id, controller_listeners, self._fail)
        self.configuration.load(quorum.loader.image)
        self._to_controller = ToController(quorum, self._environment, self._buffers, self.config)
        self.node = Node(self._environment, self.configuration, logs, quorum, self._to_controller, self._buffers)
        self._quorum = quorum
        quorum.loader.subscribe(self.configuration.on_metadata)
        quorum.loader.subscribe(self.node.on_metadata)
        quorum.start().when_done(lambda _: self._join(logs, on_ready))

    def _join(self, logs: LogManager, on_ready: Callable[[], None]) -> None:
        """Answers other nodes, and takes this node's place in the cluster."""
        if self._is_stopping or self.ended.done:
            return
        assert self._quorum is not None
        self._controller_acceptor.accept(Dispatcher(self.node, ListenerType.CONTROLLER))
        self._quorum.on_change(self.node.lifecycle.heartbeat)
        self._to_controller.on_lost = self.node.lifecycle.heartbeat
        if not self.config.is_broker:
            return self._when_led(on_ready)
        self.node.lifecycle.register(self._registration(logs)).when_done(
            lambda registered: self._registered(registered, on_ready)
        )

    def _when_led(self, on_ready: Callable[[], None]) -> None:
        """Calls `on_ready` when this node, which is no broker, knows the controller."""
        quorum, is_ready = self._quorum, False
        assert quorum is not None

        def heard() -> None:
            nonlocal is_ready
            if not is_ready and (quorum.is_active or quorum.driver.leader[0] not in (-1, self.config.node_id)):
                is_ready = True
                on_ready()
                self._register_controller()

        quorum.on_change(heard)
        heard()

    def _registered(self, registered: Promise[None], on_ready: Callable[[], None]) -> None:
        if self._is_stopping or self.ended.done:
            return
        if registered.error is not None:
            return self._fail(_why_not_registered(registered.error, self.config))
        self._catch_up(on_ready)

    def _catch_up(self, on_ready: Callable[[], None]) -> None:
        """Goes on when the metadata up to this broker's own registration are here."""
        node = self.node

        def caught_up(is_there: Promise[bool]) -> None:
            if self._is_stopping or self.ended.done:
                return
            if not is_there.value:
                return self._fail(NotRegistered("the metadata did not arrive in time: are the controllers reachable?"))
            node.begin()
            node.lifecycle.activate().when_done(lambda active: self._ready(active, on_ready))

        timeout_ms = self.config.initial_broker_registration_timeout_ms
        node.when_image(lambda image: image.end_offset > node.lifecycle.broker_epoch, timeout_ms).when_done(caught_up)

    def _opened_logs(self) -> LogManager:
        config, environment = self.config, self._environment
        logs = self._logs = LogManager(
            list(config.log_dirs),
            environment,
            config,
            limits=LogManagerLimits(
                open_files_max=config.barnabas_max_open_files or environment.open_files_max,
                free_bytes_min=config.barnabas_min_free_bytes,
            ),
            config_of=self._log_config,
        )
        logs.open(config.node_id)
        for log_dir in logs.log_dirs:
            log_dir.on_offline = self._on_offline
        random = environment.random
        self._cluster_id = self._found_cluster_id(logs) or self._cluster_id
        if not self._cluster_id and not config.is_alone:
            raise InvalidConfig(
                f"{config.log_dirs[0]} is not formatted, and a node of several cannot make up the cluster's id: "
                "`barnabas format --config FILE --cluster-id ID` prepares it"
            )
        self._cluster_id = self._cluster_id or uuid_text(random_uuid(random))
        logs.ensure_meta_properties(self._cluster_id, config.node_id, lambda: random_uuid(random))
        for log_dir in logs.log_dirs:
            log_dir.report_free_bytes_min()
        return logs

    def _found_cluster_id(self, logs: LogManager) -> str:
        found = (log_dir.meta_properties.cluster_id for log_dir in logs.log_dirs if log_dir.meta_properties)
        known = next(found, "")
        if known and self._cluster_id not in ("", known):
            self._report.warning(f"this is cluster {known} already; the id {self._cluster_id} is for one that is new")
        return known

    def _log_config(self, topic: str) -> LogConfig:
        """Returns the configuration of a log that is found on the disk."""
        if topic == CLUSTER_METADATA_TOPIC:
            return metadata_quorum.log_config(self.config)
        return self.configuration.log_config(topic)

    def _on_configuration(self, config: BrokerConfig) -> None:
        self._acceptor.config = self._controller_acceptor.config = config
        if self._logs is not None:
            self._logs.cleaner.configure(config)

    def _registration(self, logs: LogManager) -> broker_registration.BrokerRegistrationRequest:
        config = self.config
        return broker_registration.BrokerRegistrationRequest(
            broker_id=config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=random_uuid(self._environment.random),
            listeners=[_endpoint(listener, config) for listener in self.listeners],
            features=[
                broker_registration.Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in FEATURES_OF_A_NODE.items()
            ],
            rack=config.broker_rack,
            log_dirs=_directory_ids(logs),
            previous_broker_epoch=_previous_broker_epoch(logs),
        )

    def _ready(self, active: Promise[None], on_ready: Callable[[], None]) -> None:
        if self._is_stopping:
            return
        if active.error is not None:
            return self._fail(active.error)
        self._acceptor.accept(Dispatcher(self.node))
        on_ready()
        self.node.coordinators.start()
        self._register_controller()

    def _register_controller(self) -> None:
        """Lets the cluster know where this controller is, and what it supports, if others can reach it at all."""
        addresses = self._quorum.driver.addresses if self._quorum is not None else ()
        if not self.config.is_controller or not addresses:
            return
        from barnabas.broker.cluster.controller_registration import register_controller

        register_controller(self._to_controller, self.config.node_id, addresses, self._environment)
        if self.config.controller_quorum_auto_join_enable:
            self._join_voters()

    def _join_voters(self) -> None:
        from barnabas.broker.cluster.auto_join import AutoJoin

        assert self._quorum is not None
        self._auto_join = AutoJoin(self._quorum.driver, self._to_controller, self._clock, self._report)
        self._auto_join.start()


def _endpoint(listener: Listener, config: BrokerConfig) -> broker_registration.Listener:
    """Returns what other nodes and their clients see. Our own clients see the address that they dialled, unless one is
    advertised."""
    advertised = config.advertised.get(listener.name, listener)
    return broker_registration.Listener(
        name=listener.name,
        host=advertised.host or "localhost",
        port=advertised.port or listener.port,
        security_protocol=_PLAINTEXT,
    )


def _previous_broker_epoch(logs: LogManager) -> int:
    """Returns the last run's epoch if it ended cleanly everywhere: this broker then still has all that it led."""
    epochs = {log_dir.clean_shutdown_epoch for log_dir in logs.log_dirs}
    return epochs.pop() if len(epochs) == 1 else -1


def _why_not_registered(error: Exception, config: BrokerConfig) -> Exception:
    """Returns the error with what to do about it."""
    if not isinstance(error, KafkaError):
        return error
    remedies = {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION: f"give this broker another node.id than {config.node_id}, or stop the "
        "other one",
        ErrorCode.INCONSISTENT_CLUSTER_ID: "this log dir belongs to another cluster: use another, or other controllers",
        ErrorCode.REQUEST_TIMED_OUT: "no controller could be reached: see controller.quorum.bootstrap.servers or "
        "controller.quorum.voters, and whether they run",
    }
    remedy = remedies.get(error.code)
    return NotRegistered(f"the cluster does not take this broker: {error.message}" + (f" ({remedy})" if remedy else ""))


def _directory_ids(logs: LogManager) -> tuple[Uuid, ...]:
    online = (log_dir for log_dir in logs.log_dirs if log_dir.error is None)
    return tuple(log_dir.directory_id for log_dir in online if log_dir.directory_id is not None)
