"""What a handler can reach: the metadata image, the replicas, the controller, groups, and the environment."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment, Timer
from barnabas.base.promise import Promise, resolved
from barnabas.broker.cluster.lifecycle import BrokerLifecycle, LifecycleSettings
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.listeners import is_loopback
from barnabas.broker.network.session import Session
from barnabas.broker.replicas.replica_dirs import ReplicaDirs
from barnabas.broker.replicas.replica_manager import ReplicaManager, ReplicaSettings
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import uuid_text
from barnabas.replication.controller.channel import ControllerChannel
from barnabas.replication.controller.quorum_controller import QuorumController
from barnabas.replication.metadata.image import (
    BrokerImage,
    ImageChanges,
    MetadataImage,
)
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.broker.cluster.liveness import BrokerLinks
    from barnabas.broker.cluster.suspects import Suspects
    from barnabas.broker.fetch_sessions import FetchSessions
    from barnabas.broker.groups.coordinator import GroupCoordinator
    from barnabas.broker.producer_ids import ProducerIds
    from barnabas.broker.replicas.dir_assignments import DirAssignments
    from barnabas.broker.replicas.replication import Replication
    from barnabas.broker.replicas.throttles import Throttles
    from barnabas.broker.topic_creation import TopicCreation
    from barnabas.broker.transactions.brokers import Brokers
    from barnabas.broker.transactions.coordinator import TransactionCoordinator
    from barnabas.broker.transactions.traffic import TransactionTraffic
    from barnabas.broker.transactions.verification import TransactionVerifier
    from barnabas.storage.log_dir import LogDir


_EVERY_INTERFACE = ("", "0.0.0.0", "::")


class _ImageWaiter(NamedTuple):
    """One who waits for an image that is as it should be."""

    is_right: Callable[[MetadataImage], bool]
    promise: Promise[bool]
    timer: Timer


class Node:
    """One node of the cluster, as its handlers see it. What a start can do without is created, and its modules are
    imported, when a client first needs it."""

    def __init__(
        self,
        environment: Environment,
        configuration: DynamicConfig,
        logs: LogManager,
        quorum: QuorumController,
        controller: ControllerChannel,
        buffers: Buffers,
    ) -> None:
        """Follows the metadata from the start; its partitions do so from `begin` on."""
        self.configuration = configuration
        self.config: BrokerConfig = configuration.current
        self.node_id = self.config.node_id
        self.image: MetadataImage = quorum.loader.image
        self.logs = logs
        self.quorum = quorum
        """This node's part in the metadata quorum."""
        self.controller = controller
        """The active controller, wherever it is."""
        quorum.on_change(self._on_controller)
        self.clock = environment.clock
        self.report = environment.report
        self._environment = environment
        self._buffers = buffers
        self.replicas = ReplicaManager(
            ReplicaSettings(self.node_id, self.config.log_defaults, self.config.replica_lag_time_max_ms),
            environment,
            image=self.image,
            logs=logs,
            dirs=ReplicaDirs(self.node_id, logs, self._new_dir_assignments),
            new_replication=self._new_replication,
        )
        self.lifecycle = self._new_lifecycle()
        self._has_begun = False
        self._suspects: Suspects | None = None
        self._throttles: Throttles | None = None
        self._image_waiters: list[_ImageWaiter] = []
        configuration.subscribe(self._on_configuration)

    def _new_lifecycle(self) -> BrokerLifecycle:
        config = self.config
        settings = LifecycleSettings(
            max(config.broker_heartbeat_interval_ms, 1), config.initial_broker_registration_timeout_ms
        )
        return BrokerLifecycle(self.node_id, self.controller, self.clock, self.report, self._latest_image, settings)

    def _new_replication(self) -> "Replication":
        from barnabas.broker.fetchers.fetchers import Fetchers, Follower
        from barnabas.broker.replicas.isr_changes import IsrChanges
        from barnabas.broker.replicas.replication import Replication, ReplicationSettings

        config = self.config
        me = Follower(self.node_id, lambda: self.lifecycle.broker_epoch, lambda: self.config, self.throttles.follower)
        return Replication(
            self.clock,
            Fetchers(me, self._environment, self._buffers),
            IsrChanges(self.lifecycle, self.controller, self.clock),
            ReplicationSettings(
                self._inter_broker_listener,
                config.replica_lag_time_max_ms,
                config.replica_high_watermark_checkpoint_interval_ms,
            ),
        )

    def _new_dir_assignments(self) -> "DirAssignments":
        from barnabas.broker.replicas.dir_assignments import DirAssignments

        return DirAssignments(self.lifecycle, self.controller, self.clock, self._latest_image)

    @property
    def throttles(self) -> "Throttles":
        """Returns the limits on the copying of replicas, which are created with the first replica that is copied."""
        if self._throttles is None:
            from barnabas.broker.replicas.throttles import Throttles

            self._throttles = Throttles(self.clock, self.config)
            self.configuration.subscribe(self._throttles.configure)
        return self._throttles

    @property
    def _inter_broker_listener(self) -> str:
        """Returns the name of the listener at which brokers reach each other."""
        config = self.config
        inter_broker = config.inter_broker_listener.name if config.inter_broker_listener is not None else ""
        return inter_broker or (config.inter_broker_listener_name or "").upper()

    def _latest_image(self) -> MetadataImage:
        return self.image

    def _on_configuration(self, config: BrokerConfig) -> None:
        self.config = config
        self.replicas.reconfigure(config.log_defaults)

    @property
    def controller_id(self) -> int:
        """Returns a broker that takes requests for the controller. Any does: clients do not reach the quorum itself."""
        return self.node_id if self.node_id in self.image.brokers else -1

    @cached_property
    def links(self) -> "BrokerLinks":
        from barnabas.broker.cluster.liveness import BrokerLinks

        listener = self._inter_broker_listener
        return BrokerLinks(self.quorum, self._environment, node_id=self.node_id, inter_broker_listener=listener)

    def _on_controller(self) -> None:
        """Looks for the other brokers, where this node has just become their controller."""
        if self.quorum.is_active and len(self.quorum.loader.image.brokers) > 1:
            self.links.dial_all()

    @property
    def suspected(self) -> Collection[int]:
        """Returns the brokers that are probably dead, though the metadata do not say so."""
        return () if self._suspects is None else self._suspects.suspected

    @property
    def doubted(self) -> Collection[int]:
        """Returns the suspected, and those of which it is being found out whether they live."""
        return () if self._suspects is None else self._suspects.doubted

    def _watch_brokers(self, changed: Collection[int]) -> None:
        """Keeps an eye on the other brokers, once there are any."""
        if self._suspects is None and len(self.image.brokers) > 1:
            self._suspects = self._new_suspects()
        if self._suspects is not None:
            self._suspects.follow(self.image, changed)

    def _new_suspects(self) -> "Suspects":
        from barnabas.broker.cluster.suspects import Suspects

        listener = self._inter_broker_listener
        return Suspects(
            self._environment, self._wake_image_waiters, node_id=self.node_id, inter_broker_listener=listener
        )

    def watched_by(self, client_id: str, session: Session) -> None:
        """Notes that another broker watches this one on a connection. The metadata may not know it so far."""
        if self._suspects is None:
            self._suspects = self._new_suspects()
        self._suspects.watched_by(client_id, session)

    def stop_watching(self) -> None:
        """Lets go of the other brokers: their end says nothing to one that is stopping."""
        if self._suspects is not None:
            self._suspects.close()
            self._suspects = None

    @cached_property
    def fetch_sessions(self) -> "FetchSessions":
        from barnabas.broker.fetch_sessions import FetchSessions

        return FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self._environment.random)

    @cached_property
    def producer_ids(self) -> "ProducerIds":
        from barnabas.broker.producer_ids import ProducerIds

        return ProducerIds(self.lifecycle, self.controller)

    @cached_property
    def topic_creation(self) -> "TopicCreation":
        from barnabas.broker.topic_creation import TopicCreation

        return TopicCreation(self.controller, self.configuration, self._latest_image, self.report)

    @cached_property
    def coordinators(self) -> Coordinators:
        return Coordinators(
            self.replicas,
            self._environment,
            self.configuration,
            self._latest_image,
            lambda: self.producer_ids,
            self._new_brokers,
        )

    def _new_brokers(self) -> "Brokers":
        from barnabas.broker.transactions.brokers import Brokers

        listener = self._inter_broker_listener
        return Brokers(self._environment, self._buffers, self._latest_image, node_id=self.node_id, listener=listener)

    @cached_property
    def groups(self) -> "GroupCoordinator":
        return self.coordinators.groups

    @cached_property
    def transactions(self) -> "TransactionCoordinator":
        return self.coordinators.transactions

    @cached_property
    def transaction_traffic(self) -> "TransactionTraffic":
        return self.coordinators.traffic

    @property
    def transaction_verifier(self) -> "TransactionVerifier":
        return self.transaction_traffic.verifier

    def endpoints(self, session: Session, *, fenced_too: bool = False) -> Sequence[tuple[BrokerImage, str, int]]:
        """Returns where this client finds each broker. Unless an address is advertised for its listener, it finds this
        one where it dialled; siblings of which nobody but this machine knows an address are found at the same host."""
        listener = session.listener
        is_advertised = listener in self.config.advertised
        own = self.image.brokers.get(self.node_id)
        is_local = not is_advertised and own is not None and _is_local(own, listener)
        found = []
        for _, broker in sorted(self.image.brokers.items()):
            endpoint = broker.endpoints.get(listener)
            if broker.fenced and not fenced_too:
                continue
            if broker.broker_id == self.node_id and not is_advertised:
                found.append((broker, *session.local))
            elif endpoint is not None:
                host = session.local[0] if is_local and _is_local(broker, listener) else endpoint.host
                found.append((broker, host, endpoint.port))
        return found

    def leave(self) -> Promise[None]:
        """Asks the controller for leave; returns a promise that is kept when this broker may go."""
        return self.lifecycle.leave(lambda: self.quorum.driver.core.replica.has_lost_majority)

    def on_log_dir_failed(self, log_dir: "LogDir") -> None:
        """Gives up what is in a log dir that has failed, and tells the controller, which elects other leaders."""
        replicas, directory = self.replicas.dir_failed(log_dir), log_dir.directory_id
        if directory is None:
            return
        text = (
            f"{replicas} replica(s) in {log_dir.path} (directory id {uuid_text(directory)}) are offline, and the "
            "controller is told: repair or replace the disk, then restart this broker"
        )
        self.report.warning(text, log_dir=log_dir.path, directory_id=uuid_text(directory), replicas=replicas)
        self.lifecycle.log_dir_failed(directory)

    def begin(self) -> None:
        """Takes over the metadata as they are, and from now on every change of them. Before this, the image may be so
        old that it does not know what is on the disk."""
        self._has_begun = True
        self.replicas.adopt(self.image)
        self._watch_brokers(())

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """Applies a committed image to this node."""
        if changes.features:
            self._report_features(self.image.features, image.features)
        self.image = image
        if self._has_begun:
            self.replicas.apply(image, changes)
            if changes.configs and self._throttles is not None:
                self._throttles.on_topics_configured()
            self.coordinators.apply(changes)
            if changes.brokers:
                self._watch_brokers(changes.brokers)
        if any(
            broker_id in image.brokers and image.brokers[broker_id].in_controlled_shutdown
            for broker_id in changes.brokers
        ):
            self.lifecycle.heartbeat()  # it waits until all others know that it leads nothing any more
        self._wake_image_waiters()

    def _report_features(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Says which features the cluster uses in another way from now on; not what a new one begins with."""
        for name in sorted(before.keys() | after.keys()) if before else ():
            was, level = before.get(name, 0), after.get(name, 0)
            if was != level:
                self.report.info(f"{name} is {level} from now on; it was {was}", feature=name, level=level)

    def _wake_image_waiters(self) -> None:
        for waiter in [waiter for waiter in self._image_waiters if waiter.is_right(self.image)]:
            self._stop_waiting(waiter)
            waiter.promise.resolve(True)

    def when_in_sync(self, timeout_ms: int) -> Promise[bool]:
        """Returns a promise that is kept when this broker is in sync with every partition that it has a replica of, or
        with False after the timeout."""
        return self.when_image(self._is_in_sync, timeout_ms)

    def _is_in_sync(self, image: MetadataImage) -> bool:
        return all(
            self.node_id in partition.isr or self.node_id not in partition.replicas
            for topic in image.topics.values()
            for partition in topic.partitions
        )

    def when_image(self, is_right: Callable[[MetadataImage], bool], timeout_ms: int) -> Promise[bool]:
        """Returns a promise that is kept when this broker's image is as it should be, or with False after the timeout:
        what the controller has committed may reach its other brokers later than its answer."""
        if is_right(self.image):
            return resolved(True)
        promise: Promise[bool] = Promise(lambda: self._stop_waiting(waiter))

        def too_late() -> None:
            self._stop_waiting(waiter)
            promise.resolve(False)

        waiter = _ImageWaiter(is_right, promise, self.clock.call_later(timeout_ms, too_late))
        self._image_waiters.append(waiter)
        return promise

    def _stop_waiting(self, waiter: _ImageWaiter) -> None:
        waiter.timer.cancel()
        self._image_waiters.remove(waiter)


def _is_local(broker: BrokerImage, listener: str) -> bool:
    """Returns whether the host that the broker registered means something to its own machine only."""
    endpoint = broker.endpoints.get(listener)
    if endpoint is None:
        return False
    host = endpoint.host
    return host in _EVERY_INTERFACE or is_loopback(host)
