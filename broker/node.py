"""What a handler can reach: the metadata image, the replicas, the controller, groups, and the environment."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.lifecycle import BrokerLifecycle
from barnabas.broker.network.session import Session
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.replication.controller.channel import ControllerChannel
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, BrokerImage, ImageChanges, MetadataImage
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.broker.fetch_sessions import FetchSessions
    from barnabas.broker.groups.coordinator import GroupCoordinator
    from barnabas.broker.producer_ids import ProducerIds
    from barnabas.broker.topic_creation import TopicCreation


class Node:
    """One node of the cluster, as its handlers see it. What a start can do without is created, and its modules are
    imported, when a client first needs it."""

    def __init__(
        self,
        environment: Environment,
        configuration: DynamicConfig,
        image: MetadataImage,
        logs: LogManager,
        controller: ControllerChannel,
    ) -> None:
        self.configuration = configuration
        self.config: BrokerConfig = configuration.current
        self.node_id = self.config.node_id
        self.image = image
        self.logs = logs
        self.controller = controller
        self.clock = environment.clock
        self.report = environment.report
        self._environment = environment
        self.replicas = ReplicaManager(
            self.node_id,
            environment,
            image=image,
            logs=logs,
            log_defaults=self.config.log_defaults,
        )
        self.lifecycle = BrokerLifecycle(self.node_id, controller, self._latest_image)
        self._groups: GroupCoordinator | None = None
        configuration.subscribe(self._on_configuration)

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

    @property
    def groups(self) -> "GroupCoordinator":
        """Returns the coordinator of groups, which is created when a group is first asked for or found."""
        if self._groups is None:
            from barnabas.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                replicas=self.replicas,
                environment=self._environment,
                config=lambda: self.config,
                image=self._latest_image,
            )
        return self._groups

    def start_groups(self) -> None:
        """Loads the groups that are stored here: the sessions of their members go on, or end."""
        if self.image.topic(GROUP_METADATA_TOPIC) is not None:
            self.groups.start()

    def stop_groups(self) -> None:
        """Answers every member that waits for others to join."""
        if self._groups is not None:
            self._groups.stop()

    def endpoints(self, session: Session, *, fenced_too: bool = False) -> Sequence[tuple[BrokerImage, str, int]]:
        """Returns where this client finds each broker. Unless an address is advertised for its listener, it gets the
        one that it dialled."""
        found = []
        for broker in self.image.brokers.values() if fenced_too else self.image.active_brokers:
            endpoint = broker.endpoints.get(session.listener)
            if broker.broker_id == self.node_id and session.listener not in self.config.advertised:
                found.append((broker, *session.local))
            elif endpoint is not None:
                found.append((broker, endpoint.host, endpoint.port))
        return found

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """Applies a committed image to this node."""
        self.image = image
        self.replicas.apply(image, changes)
        if self._groups is not None:
            self._groups.apply(changes)
