"""The reference promises an effect for exactly those keys that the broker reads."""

import re

import pytest

from barnabas.base.config_def import Config, ConfigKey
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.group_keys import GroupConfigKeys
from barnabas.storage.log_config import LogConfig
from tests.kafka_jars import ROOT

READ_BY_THE_CONFIGURATION_ITSELF = {
    # Checked, or turned into what the broker reads: listeners, limits per address, segment sizes.
    *("advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.voters"),
    "controller.quorum.bootstrap.servers",
    *("inter.broker.listener.name", "internal.segment.bytes", "listener.security.protocol.map", "listeners", "log.dir"),
    *("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
    *("max.connections.per.ip.overrides", "message.timestamp.type", "process.roles", "cleanup.policy", "segment.ms"),
}


@pytest.fixture(scope="module")
def attributes_read() -> set[str]:
    """Every attribute name that the packages read, outside the configuration's own modules."""
    sources = [
        path
        for folder in ("base", "storage", "replication", "broker", "barnabas")
        for path in (ROOT / folder).glob("**/*.py")
    ]
    own = ("config_def.py", "log_config.py")
    code = [path.read_text() for path in sources if path.parent.name != "config" and path.name not in own]
    return set(re.findall(r"\.([a-z_0-9]+)\b", "\n".join(code)))


DEFAULTS_OF_TOPIC_KEYS = {name: key for key in LogConfig.KEYS.values() for name in key.broker_keys}


@pytest.mark.parametrize(
    ("config", "elsewhere"), [(LogConfig, {}), (GroupConfigKeys, {}), (BrokerConfig, DEFAULTS_OF_TOPIC_KEYS)]
)
def test_a_key_has_an_effect_if_and_only_if_it_is_read(
    config: type[Config], elsewhere: dict[str, ConfigKey], attributes_read: set[str]
) -> None:
    keys = {
        name: key for name, key in config.KEYS.items() if name not in {*READ_BY_THE_CONFIGURATION_ITSELF, *elsewhere}
    }
    promised = {name for name, key in keys.items() if key.honoured}
    read = {name for name, key in keys.items() if key.attribute in attributes_read}
    assert promised == read, "set honoured= in the key's declaration, then write docs/configuration.md anew"


def test_the_default_of_a_topic_key_has_an_effect_where_the_topic_key_has() -> None:
    assert {name: BrokerConfig.KEYS[name].honoured for name in DEFAULTS_OF_TOPIC_KEYS} == {
        name: key.honoured for name, key in DEFAULTS_OF_TOPIC_KEYS.items()
    }
