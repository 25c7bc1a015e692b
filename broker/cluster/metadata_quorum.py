"""The node's part in the metadata quorum, put together from its configuration and its log dirs."""

from collections.abc import Callable

from barnabas.base.environment import Environment
from barnabas.broker.config.broker_config import BrokerConfig, QuorumNode
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.controller_settings import controller_settings
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.listeners import Listener
from barnabas.broker.network.quorum_peers import QuorumPeers
from barnabas.replication.controller.controller import Controller
from barnabas.replication.controller.quorum_controller import QuorumController, QuorumSettings
from barnabas.replication.metadata.log import METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config
from barnabas.replication.metadata.snapshotter import SnapshotSettings
from barnabas.replication.quorum.opening import ConfiguredVoters
from barnabas.replication.quorum.settings import Identity, QuorumConfig
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterNode, VoterSet
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager

STATIC, DYNAMIC = 0, 1
"""kraft.version: whether the configuration or the log says who votes."""


class MetadataQuorum:
    """Builds the controller of a node."""

    def __init__(self, configuration: DynamicConfig, environment: Environment, buffers: Buffers) -> None:
        self._configuration = configuration
        self._environment = environment
        config = configuration.current
        self.peers = QuorumPeers(environment, buffers, client_id=f"node-{config.node_id}-quorum")

    def open(
        self,
        logs: LogManager,
        cluster_id: str,
        listeners: list[Listener],
        on_failure: Callable[[BaseException], None],
    ) -> QuorumController:
        """Reads the metadata log of this node. Raises KafkaStorageError if metadata is missing."""
        config = self._configuration.current
        log = logs.create(METADATA_PARTITION, METADATA_TOPIC_ID, log_config(config))
        me = self._identity(config, log, cluster_id, listeners)
        settings = QuorumSettings(
            me,
            _voters(config, me),
            QuorumConfig(
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
                election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
                response_timeout_ms=config.controller_quorum_request_timeout_ms,
            ),
            SnapshotSettings(
                max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
                max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
        )
        return QuorumController(log, settings, self.peers, self._environment, self._decides(), on_failure)

    def _decides(self) -> Controller:
        configuration = self._configuration
        decides = Controller(controller_settings(configuration), self._environment.random)

        def reconfigure(_config: BrokerConfig) -> None:
            decides.settings = controller_settings(configuration)

        configuration.subscribe(reconfigure)
        return decides

    def _identity(self, config: BrokerConfig, log: Log, cluster_id: str, listeners: list[Listener]) -> Identity:
        properties = log.log_dir.meta_properties
        assert properties is not None, "a dir without an owner is given one before its logs are opened"
        return Identity(
            cluster_id,
            ReplicaKey(config.node_id, properties.directory_id),
            _addresses(config, listeners),
            bootstrap=tuple(
                VoterNode(ReplicaKey(-2 - index), (Address("", *address),))
                for index, address in enumerate(config.quorum_bootstrap)
            ),
        )


def log_config(config: BrokerConfig) -> LogConfig:
    return metadata_log_config(
        segment_bytes=config.metadata_log_segment_bytes, segment_ms=config.metadata_log_segment_ms
    )


def _addresses(config: BrokerConfig, listeners: list[Listener]) -> tuple[Address, ...]:
    """Returns where other nodes reach this controller: what is advertised, what the list of static voters says, or
    what it listens on."""
    static = {voter.node_id: voter.address for voter in config.quorum_voters}
    found = []
    for listener in listeners:
        advertised = config.advertised.get(listener.name)
        if advertised is not None:
            found.append(Address(listener.name, advertised.host, advertised.port or listener.port))
        elif config.node_id in static:
            found.append(Address(listener.name, *static[config.node_id]))
        else:
            is_open = listener.host in ("", "0.0.0.0", "::")
            found.append(Address(listener.name, "localhost" if is_open else listener.host, listener.port))
    return tuple(found)


def _voters(config: BrokerConfig, me: Identity) -> ConfiguredVoters:
    if config.is_alone:
        return ConfiguredVoters(VoterSet([me.node]), DYNAMIC)
    if config.quorum_voters:
        name = config.controller_listener_names[0]
        return ConfiguredVoters(VoterSet([_static(voter, name) for voter in config.quorum_voters]), STATIC)
    return ConfiguredVoters(VoterSet([]), DYNAMIC)


def _static(voter: QuorumNode, listener: str) -> VoterNode:
    return VoterNode(ReplicaKey(voter.node_id), (Address(listener, *voter.address),))
