"""What a handler can reach: the metadata image, the replicas, the controller, and what is handed in from outside."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

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
from barnabas.replication.image import BrokerImage, ImageChanges, MetadataImage, ResourceType
from barnabas.storage.log_manager import LogManager
from barnabas.storage.seams import Clock, Report


class RequestContext(NamedTuple):
    """What a request's header and connection say."""

    api_version: int
    client_id: str | None
    connection: Connection


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
