"""What a handler can reach: the metadata image, the replicas, the controller, and what is handed in from outside."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.client_info import ClientInfo
from barnabas.broker.config import BrokerConfig, BrokerProperties
from barnabas.broker.config_describe import ConfigDescriber
from barnabas.broker.connection import Connection
from barnabas.broker.controller_shell import ControllerShell
from barnabas.broker.fetch_sessions import FetchSessions
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.topic_creation import TopicCreation
from barnabas.protocol.messages.api_versions import ApiVersion
from barnabas.replication.cluster_control import SUPPORTED_FEATURES
from barnabas.replication.image import GROUP_METADATA_TOPIC, BrokerImage, ImageChanges, MetadataImage, ResourceType
from barnabas.replication.placement import Random
from barnabas.storage.log_manager import LogManager
from barnabas.storage.seams import Clock, Report

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import GroupCoordinator


class RequestContext(NamedTuple):
    """What a request's header and connection say."""

    api_version: int
    client_id: str | None
    connection: Connection

    @property
    def client(self) -> ClientInfo:
        return ClientInfo(self.client_id or "", f"/{self.connection.peer[0]}", self.api_version)


class Broker:
    """One node. The parts that need the cluster to know this node are set when it is registered."""

    controller: ControllerShell
    topic_creation: TopicCreation
    producer_ids: ProducerIds

    def __init__(
        self,
        properties: BrokerProperties,
        *,
        image: MetadataImage,
        logs: LogManager,
        replicas: ReplicaManager,
        fetch_sessions: FetchSessions,
        api_versions: Sequence[ApiVersion],
        clock: Clock,
        random: Random,
        report: Report,
        on_reconfigured: Callable[[BrokerConfig], None],
    ) -> None:
        self.properties = properties
        self.config: BrokerConfig = properties.effective()
        self.node_id = self.config.node_id
        self.image = image
        self.logs = logs
        self.replicas = replicas
        self.fetch_sessions = fetch_sessions
        self.api_versions = api_versions
        self.clock = clock
        self._random = random
        self._groups: GroupCoordinator | None = None
        self.report = report
        self._on_reconfigured = on_reconfigured
        self._config_describer: ConfigDescriber | None = None

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED_FEATURES

    @property
    def controller_id(self) -> int:
        """A broker that takes requests for the controller, which is any: clients do not reach the quorum itself."""
        return self.node_id if self.node_id in self.image.brokers else -1

    @property
    def config_describer(self) -> ConfigDescriber:
        if self._config_describer is None:
            self._config_describer = ConfigDescriber(self.properties)
        return self._config_describer

    @property
    def groups(self) -> "GroupCoordinator":
        """Made, and its modules imported, when a group is first asked for or found: a broker without groups starts
        without them."""
        if self._groups is None:
            from barnabas.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                self.node_id,
                replicas=self.replicas,
                clock=self.clock,
                random=self._random,
                report=self.report,
                config=lambda: self.config,
                image=lambda: self.image,
            )
        return self._groups

    def start_groups(self) -> None:
        """Loads the groups that are stored here: the sessions of their members go on, or end."""
        if self.image.topic(GROUP_METADATA_TOPIC) is not None:
            self.groups.start()

    def stop_groups(self) -> None:
        """Nobody is left waiting for others to join."""
        if self._groups is not None:
            self._groups.stop()

    def endpoints(self, connection: Connection, *, fenced_too: bool = False) -> Sequence[tuple[BrokerImage, str, int]]:
        """Where the client on this connection finds each broker. Unless an address is advertised for its listener, it
        is told the one that it dialled."""
        found = []
        for node in self.image.brokers.values() if fenced_too else self.image.active_brokers:
            endpoint = node.endpoints.get(connection.listener)
            if node.broker_id == self.node_id and connection.listener not in self.config.advertised:
                found.append((node, *connection.local))
            elif endpoint is not None:
                found.append((node, endpoint.host, endpoint.port))
        return found

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """Makes a committed image true on this broker."""
        self.image = image
        for resource in changes.configs:
            if resource.type == ResourceType.BROKER and resource.name in ("", str(self.node_id)):
                self.reconfigure()
                keys = sorted({*self.properties.cluster, *self.properties.node})
                self.report.info(f"this broker is configured anew: {', '.join(keys) or 'as it was started'}", keys=keys)
        self.replicas.apply(image, changes)
        if self._groups is not None:
            self._groups.apply(changes)

    def reconfigure(self) -> None:
        """Takes over what the image says about this broker's own configuration (KIP-226)."""
        self.properties = self.properties._replace(
            cluster=self.image.config(ResourceType.BROKER, ""),
            node=self.image.config(ResourceType.BROKER, str(self.node_id)),
        )
        self.config = self.properties.effective()
        self._config_describer = None
        self.replicas.reconfigure(self.config.log_defaults)
        self._on_reconfigured(self.config)
