"""What DescribeConfigs says about a topic, a group and a broker. Pure: everything it knows is handed in.

- A value comes with every place that could have given it, the strongest first: the topic or group, this broker at run
  time, all brokers at run time, the properties the broker was started with, the default (KIP-226). The first is its
  source.
- Within one place the keys that speak for the same thing follow each other: log.retention.ms, .minutes, .hours.
- Kafka drops what precedes the first entry that bears the described key's own name, and so do we: segment.ms given by
  log.roll.hours alone is shown without synonyms, as a default.
- A sensitive value is never shown, nor is that of a key whose type is unknown.
"""

from collections.abc import Collection, Iterable, Mapping

from barnabas.base.config_def import ConfigKey, ConfigType, text_of
from barnabas.broker.config.broker_config import BrokerConfig, BrokerProperties, resolve_aliases
from barnabas.protocol.config_types import ConfigSource
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.log_config import LogConfig


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_default: bool
    read_only: bool
    is_sensitive: bool
    config_type: ConfigType
    documentation: str | None
    synonyms: tuple[Synonym, ...]


class ConfigDescriber:
    """The answers for one state of a broker's properties. Topics share what they do not override."""

    def __init__(self, properties: BrokerProperties) -> None:
        self._properties = properties._replace(static=resolve_aliases(properties.static))
        self._config = properties.effective()
        self._topic_defaults = {
            key.name: _describe_topic_default(key, self._config.log_defaults, self._properties)
            for key in LogConfig.KEYS.values()
        }

    def topic(self, overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Returns every topic key, or those of `names` that exist; internal ones only where the topic sets them."""
        config = self._config.log_defaults.with_stored(overrides)
        entries = [
            _overridden(entry, config.as_text(name), ConfigSource.DYNAMIC_TOPIC_CONFIG) if name in overrides else entry
            for name, entry in self._topic_defaults.items()
            if name in overrides or not LogConfig.KEYS[name].internal
        ]
        return _selected(entries, names)

    def group(self, overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Returns every key that a group can set, or those of `names` that exist. The group itself need not exist."""
        from barnabas.broker.config.group_keys import GroupConfigKeys

        source = ConfigSource.GROUP_CONFIG
        entries = (_describe_group_default(key, self._properties) for key in GroupConfigKeys.KEYS.values())
        return _selected(
            (
                _overridden(entry, overrides[entry.name], source) if entry.name in overrides else entry
                for entry in entries
            ),
            names,
        )

    def broker(self, names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Returns every key of this broker that has an effect or is set, or those of `names`."""
        given = self._given()
        keys = [key for key in BrokerConfig.KEYS.values() if not key.internal or key.name in given]
        keys += [BrokerConfig.key(name) for name in given if name not in BrokerConfig.KEYS]
        return _selected(map(self._describe, keys), names)

    def cluster_default(self, names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Returns what was altered at run time for every broker: the broker resource with the empty name."""
        entries = (self._describe(BrokerConfig.key(name)) for name in self._properties.cluster)
        return _selected((_only_cluster(entry, self._properties.cluster) for entry in entries), names)

    def _given(self) -> dict[str, str]:
        return {**self._properties.static, **self._properties.cluster, **self._properties.node}

    def _describe(self, key: ConfigKey) -> DescribedConfig:
        value = self._config.as_text(key.name) if key.name in BrokerConfig.KEYS else self._given()[key.name]
        synonyms = _synonyms(key.name, _same_meaning(key.name), self._properties)
        return _described(key, value, synonyms, read_only=key.read_only)


def _selected(entries: Iterable[DescribedConfig], names: Collection[str] | None) -> list[DescribedConfig]:
    if not names:  # an empty list of names asks for all, as in Kafka
        return list(entries)
    chosen = set(names)
    return [entry for entry in entries if entry.name in chosen]


def _describe_topic_default(key: ConfigKey, defaults: LogConfig, properties: BrokerProperties) -> DescribedConfig:
    synonyms = _synonyms(key.broker_keys[0], key.broker_keys, properties) if key.broker_keys else []
    return _described(key, defaults.as_text(key.name), synonyms, read_only=False)


def _describe_group_default(key: ConfigKey, properties: BrokerProperties) -> DescribedConfig:
    """Describes a group key that is not set. If its broker key has no effect here, its own default holds."""
    name = key.broker_keys[0] if key.broker_keys else key.name
    synonyms = _synonyms(name, (name,), properties)
    if not synonyms or synonyms[-1].source is not ConfigSource.DEFAULT_CONFIG:
        synonyms.append(Synonym(name, text_of(key.default), ConfigSource.DEFAULT_CONFIG))
    return _described(key, synonyms[0].value, synonyms, read_only=False)


def _overridden(entry: DescribedConfig, value: str | None, source: ConfigSource) -> DescribedConfig:
    synonyms = (Synonym(entry.name, value, source), *entry.synonyms)
    return entry._replace(value=value, source=source, is_default=False, synonyms=synonyms)


def _only_cluster(entry: DescribedConfig, cluster: Mapping[str, str]) -> DescribedConfig:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    synonyms = tuple(synonym for synonym in entry.synonyms if synonym.source is source)
    value = None if entry.is_sensitive else cluster[entry.name]
    return entry._replace(value=value, source=source, is_default=False, synonyms=synonyms)


def _described(key: ConfigKey, value: str | None, synonyms: list[Synonym], *, read_only: bool) -> DescribedConfig:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if key.sensitive:
        value, synonyms = None, [synonym._replace(value=None) for synonym in synonyms]
    return DescribedConfig(
        name=key.name,
        value=value,
        source=source,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        is_sensitive=key.sensitive,
        config_type=key.type,
        documentation=key.documentation or None,
        synonyms=tuple(synonyms),
    )


def _same_meaning(name: str) -> tuple[str, ...]:
    """Returns the broker keys that mean the same as `name`, the strongest first."""
    return next((key.broker_keys for key in LogConfig.KEYS.values() if name in key.broker_keys), (name,))


def _synonyms(name: str, same_meaning: tuple[str, ...], properties: BrokerProperties) -> list[Synonym]:
    places = (
        (properties.node, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (properties.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (properties.static, ConfigSource.STATIC_BROKER_CONFIG),
        (_defaults(same_meaning), ConfigSource.DEFAULT_CONFIG),
    )
    found = [Synonym(key, texts[key], source) for texts, source in places for key in same_meaning if key in texts]
    own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[own:]


def _defaults(names: Iterable[str]) -> dict[str, str]:
    keys = (BrokerConfig.KEYS.get(name) for name in names)
    texts = ((key.name, text_of(key.default)) for key in keys if key is not None)
    return {name: text for name, text in texts if text is not None}
