"""The configuration of one group.

- A group has its own values where it has set them, and the broker's otherwise.
- The broker says how far a group may go. A value outside is refused when it is set; one that was set when other limits
  held is taken as the nearest that is allowed now.
"""

from collections.abc import Callable, Mapping

from barnabas.base.config_def import ConfigKey
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.group_keys import GroupConfigKeys
from barnabas.broker.groups.context import GroupContext
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import InvalidConfig

ASSIGNMENT_INTERVAL_MS = "consumer.assignment.interval.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"


class GroupConfig:
    """The values of one group. It is built for each question: that costs nothing, and it is never out of date."""

    __slots__ = ("_broker", "_own")

    def __init__(self, broker: BrokerConfig, own: Mapping[str, str]) -> None:
        self._broker = broker
        self._own = own

    @property
    def consumer_assignment_interval_ms(self) -> int:
        return self._value(ASSIGNMENT_INTERVAL_MS)

    @property
    def consumer_heartbeat_interval_ms(self) -> int:
        return self._value(HEARTBEAT_INTERVAL_MS)

    @property
    def consumer_session_timeout_ms(self) -> int:
        return self._value(SESSION_TIMEOUT_MS)

    def _value(self, name: str) -> int:
        default, lowest, highest = _OF_BROKER[name](self._broker)
        own = self._own.get(name)
        return default if own is None else min(max(int(own), lowest), highest)


def group_config(context: GroupContext, group_id: str) -> GroupConfig:
    return GroupConfig(context.config(), context.image().config(ResourceType.GROUP, group_id))


class GroupConfigSchema:
    """The keys that a group may set under a broker of this configuration."""

    __slots__ = ("_broker",)

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker

    def key(self, name: str) -> ConfigKey:
        return GroupConfigKeys.key(name)

    def with_overrides(self, texts: Mapping[str, str]) -> GroupConfig:
        """Raises InvalidConfig unless a group may have all these together."""
        GroupConfigKeys.parse(texts)
        for name, of_broker in _OF_BROKER.items():
            if name in texts:
                _, lowest, highest = of_broker(self._broker)
                _check_limits(name, int(texts[name]), lowest, highest)
        config = GroupConfig(self._broker, texts)
        if config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
            raise InvalidConfig(f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}")
        return config


def _check_limits(name: str, value: int, lowest: int, highest: int) -> None:
    protocol, _, setting = name.partition(".")
    if value < lowest:
        raise InvalidConfig(f"{name} must be greater than or equal to group.{protocol}.min.{setting} ({lowest})")
    if value > highest:
        raise InvalidConfig(f"{name} must be less than or equal to group.{protocol}.max.{setting} ({highest})")


_OF_BROKER: dict[str, Callable[[BrokerConfig], tuple[int, int, int]]] = {
    ASSIGNMENT_INTERVAL_MS: lambda broker: (
        broker.group_consumer_assignment_interval_ms,
        broker.group_consumer_min_assignment_interval_ms,
        broker.group_consumer_max_assignment_interval_ms,
    ),
    HEARTBEAT_INTERVAL_MS: lambda broker: (
        broker.group_consumer_heartbeat_interval_ms,
        broker.group_consumer_min_heartbeat_interval_ms,
        broker.group_consumer_max_heartbeat_interval_ms,
    ),
    SESSION_TIMEOUT_MS: lambda broker: (
        broker.group_consumer_session_timeout_ms,
        broker.group_consumer_min_session_timeout_ms,
        broker.group_consumer_max_session_timeout_ms,
    ),
}
"""The broker's values for each key: the default, the lowest and the highest."""
