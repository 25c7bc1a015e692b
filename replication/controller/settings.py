"""What decisions depend on besides the request and the image."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.base.environment import Random
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.controller.broker_sessions import BrokerSessions
from barnabas.replication.controller.channel import ControllerRequestContext

if TYPE_CHECKING:
    from barnabas.base.config_def import ConfigKey
    from barnabas.protocol.messages.create_topics import CreatableTopicConfigs


class Schema(Protocol):
    """The keys of one kind of resource, and the rules for their values."""

    def key(self, name: str) -> "ConfigKey": ...

    def with_overrides(self, texts: Mapping[str, str]) -> object:
        """Raises InvalidConfig."""
        ...


class ConfigSchemas(NamedTuple):
    topic: Schema
    """The configuration of a topic that sets nothing itself."""
    broker: Schema
    """The keys of a broker."""
    group: Callable[[], Schema]
    """Returns the keys of a group. It is called when a group is configured, which many brokers never see."""


class TopicDefaults(NamedTuple):
    num_partitions: int = 1
    replication_factor: int = 1
    min_insync_replicas: int = 1


class ControllerSettings(NamedTuple):
    """The settings from the controller's own configuration. They may change while the controller runs."""

    schemas: ConfigSchemas
    describe_topic_configs: Callable[[Mapping[str, str]], "Sequence[CreatableTopicConfigs]"]
    """Returns what CreateTopics answers about the configuration of a topic that sets these values."""
    defaults: TopicDefaults = TopicDefaults()
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    """Whether a replica that is not in sync may lead, of topics that do not say so themselves."""
    broker_session_timeout_ms: int = 9_000
    auto_leader_rebalance_enable: bool = True
    """Whether preferred leaders lead again without being asked."""
    leader_imbalance_check_interval_ms: int = 300_000
    unclean_leader_election_interval_ms: int = 300_000


class Deciding(NamedTuple):
    """The circumstances of one decision."""

    settings: ControllerSettings
    random: Random
    context: ControllerRequestContext
    sessions: BrokerSessions
    now_ms: int
