"""The configuration of one broker, under Kafka's keys.

- Strongest first: what was altered at run time for this node, what was altered for the whole cluster, the properties
  the broker was started with, the default (KIP-226).
- A key that Kafka knows and that has no effect here is accepted, so that Kafka's own server.properties loads, and
  `without_effect` lists it. A key that Kafka does not know is refused with the nearest known one.
- `log_defaults` is what a topic without settings of its own gets; several broker keys may give the default of one topic
  key, and the first that is set wins.
- A node that names no other in its quorum is a cluster by itself. Kafka asks for `format --standalone` first.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from barnabas.base.config_def import ConfigKey, invalid_value, parse_value, unknown_key
from barnabas.base.network import Address
from barnabas.broker.config.coordinator_keys import GroupKeys
from barnabas.broker.config.ignored_keys import ignored_keys, prefixed_key
from barnabas.broker.config.log_keys import LogKeys
from barnabas.broker.config.server_keys import ServerKeys
from barnabas.broker.network.listeners import Listener, check_advertised, parse_listeners, parse_protocol_map
from barnabas.protocol.errors import InvalidConfig
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.log_config import LogConfig

_ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Old keys, each with the key that replaced it and wins over it."""

_RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_MS_PER_UNIT = {"minutes": 60_000, "hours": 3_600_000}


_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class QuorumNode(NamedTuple):
    node_id: int
    address: Address


class BrokerConfig(ServerKeys, LogKeys, GroupKeys):
    SCOPE = "broker"

    client_listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    advertised: dict[str, Listener]
    """Addresses by listener name; a listener that is missing here advertises the address that the client dialled."""
    inter_broker_listener: Listener | None
    """None on a node that is no broker."""
    quorum_voters: tuple[QuorumNode, ...]
    """The static voters; empty where the log says who votes."""
    quorum_bootstrap: tuple[Address, ...]
    connections_per_ip_overrides: dict[str, int]
    log_defaults: LogConfig

    @classmethod
    def key(cls, name: str) -> ConfigKey:
        """Returns the declaration of a broker key, also of one without effect."""
        if (key := cls.KEYS.get(name) or prefixed_key(name)) is not None:
            return key
        ignored = ignored_keys()
        if (key := ignored.get(name)) is not None:
            return key
        raise unknown_key(cls.SCOPE, name, [*cls.KEYS, *ignored])

    def with_overrides(self, texts: Mapping[str, str]) -> Self:
        return super().with_overrides(
            {name: text for name, text in resolve_aliases(texts).items() if not _is_ignored(name, text)}
        )

    def _derive(self, values: dict[str, Any]) -> None:
        self._derive_listeners(values)
        values["quorum_voters"] = tuple(map(_parse_voter, self.controller_quorum_voters))
        values["quorum_bootstrap"] = tuple(map(_parse_bootstrap_server, self.controller_quorum_bootstrap_servers))
        values["connections_per_ip_overrides"] = _parse_connection_overrides(self.max_connections_per_ip_overrides)
        values["log_defaults"] = _log_defaults(values)

    def _derive_listeners(self, values: dict[str, Any]) -> None:
        controllers = {name.upper() for name in self.controller_listener_names}
        protocols = dict.fromkeys(controllers, "PLAINTEXT") | parse_protocol_map(self.listener_security_protocol_map)
        listeners = parse_listeners("listeners", self.listeners, protocols)
        advertised = parse_listeners("advertised.listeners", self.advertised_listeners or (), protocols)
        check_advertised(advertised, listeners)
        values["client_listeners"] = tuple(listener for listener in listeners if listener.name not in controllers)
        values["controller_listeners"] = tuple(listener for listener in listeners if listener.name in controllers)
        values["advertised"] = {listener.name: listener for listener in advertised}
        values["inter_broker_listener"] = self._find_inter_broker_listener()

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def is_alone(self) -> bool:
        """Returns whether the configuration names no other node: then a new node is a cluster by itself."""
        voters = {voter.node_id for voter in self.quorum_voters}
        own_ports = {listener.port for listener in self.controller_listeners}
        others = [address for address in self.quorum_bootstrap if not self._is_own(address, own_ports)]
        return self.is_controller and voters <= {self.node_id} and not others

    def _is_own(self, address: Address, own_ports: set[int]) -> bool:
        hosts = {listener.host for listener in (*self.controller_listeners, *self.advertised.values())}
        return address.port in own_ports and address.host in (*_THIS_MACHINE, *hosts)

    def _find_inter_broker_listener(self) -> Listener | None:
        if not self.is_broker:
            return None
        if not self.client_listeners:
            raise InvalidConfig("listeners has none for clients: every one is named in controller.listener.names")
        if self.inter_broker_listener_name is None:
            return self.client_listeners[0]
        by_name = {listener.name: listener for listener in self.client_listeners}
        if (found := by_name.get(self.inter_broker_listener_name.upper())) is not None:
            return found
        raise invalid_value(
            "inter.broker.listener.name", self.inter_broker_listener_name, f"one of {', '.join(by_name)}"
        )

    def check(self) -> None:
        super().check()
        if self.log_defaults.retention_ms == 0:
            raise invalid_value("log.retention.ms", 0, "-1 (forever) or at least 1")
        if self.log_defaults.segment_ms < 1:
            raise invalid_value("log.roll.ms", self.log_defaults.segment_ms, "at least 1")
        if self.log_defaults.segment_jitter_ms < 0:
            raise invalid_value("log.roll.jitter.ms", self.log_defaults.segment_jitter_ms, "at least 0")
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            rule = f"at least socket.request.max.bytes ({self.socket_request_max_bytes})"
            raise invalid_value("queued.max.request.bytes", self.queued_max_request_bytes, rule)
        if self.max_connections_per_ip == 0 and not self.connections_per_ip_overrides:
            raise invalid_value(
                "max.connections.per.ip", 0, "at least 1 unless max.connections.per.ip.overrides is set"
            )
        if self.replica_selector_class not in (None, _RACK_AWARE_SELECTOR):
            rule = f"{_RACK_AWARE_SELECTOR}, or not set: no other class can be loaded here"
            raise invalid_value("replica.selector.class", self.replica_selector_class, rule)
        self.log_defaults.check()
        self._check_quorum()

    def _check_quorum(self) -> None:
        voters = [voter.node_id for voter in self.quorum_voters]
        if len(set(voters)) < len(voters):
            raise invalid_value("controller.quorum.voters", _text(self.controller_quorum_voters), "each id once")
        if not self.is_broker and self.client_listeners:
            rule = f"none but the controller's, {_text(self.controller_listener_names)}: this node is no broker"
            raise invalid_value("listeners", _text(self.listeners), rule)
        if not self.is_controller:
            return self._check_broker_only(voters)
        if voters and self.node_id not in voters:
            rule = f"a list with this node ({self.node_id}@host:port), or process.roles=broker"
            raise invalid_value("controller.quorum.voters", _text(self.controller_quorum_voters), rule)
        if not self.is_alone:
            self._check_controller_listener()

    def _check_broker_only(self, voters: list[int]) -> None:
        if not voters and not self.quorum_bootstrap:
            raise InvalidConfig(
                "process.roles is broker: say in controller.quorum.bootstrap.servers or controller.quorum.voters where "
                "the controllers are"
            )
        if self.node_id in voters:
            rule = f"a list without this node ({self.node_id}), or process.roles=broker,controller"
            raise invalid_value("controller.quorum.voters", _text(self.controller_quorum_voters), rule)
        if self.controller_listeners:
            rule = f"none of {_text(self.controller_listener_names)}: this node is no controller"
            raise invalid_value("listeners", _text(self.listeners), rule)

    def _check_controller_listener(self) -> None:
        names = _text(self.controller_listener_names)
        if not self.controller_listeners:
            rule = f"a list with one for the other controllers, as {names}://host:port"
            raise invalid_value("listeners", _text(self.listeners), rule)
        listener = self.controller_listeners[0]
        if listener.host in ("", "0.0.0.0", "::") and listener.name not in self.advertised and not self.quorum_voters:
            raise InvalidConfig(
                f"{listener} listens on every interface: say in advertised.listeners at which address the other nodes "
                f"reach it, as {listener.name}://host:{listener.port}"
            )


class BrokerProperties(NamedTuple):
    """The sources of a broker's configuration, as text: the weakest layer first."""

    static: Mapping[str, str] = {}
    cluster: Mapping[str, str] = {}
    """What was altered at run time for every broker: the resource with the empty name."""
    node: Mapping[str, str] = {}
    """What was altered at run time for this broker."""

    def effective(self) -> BrokerConfig:
        return BrokerConfig.parse({**resolve_aliases(self.static), **self.cluster, **self.node})

    def usable(self) -> Self:
        """Returns the sources without what was altered at run time and does not go together with the others here."""
        found = self._replace(cluster={}, node={})
        for layer, texts in (("cluster", self.cluster), ("node", self.node)):
            for name, text in texts.items():
                more = found._replace(**{layer: {**getattr(found, layer), name: text}})
                try:
                    more.effective()
                except InvalidConfig:
                    continue
                found = more
        return found


def without_effect(texts: Mapping[str, str]) -> list[str]:
    """Returns the given keys that are accepted and change nothing, for one line in the log."""
    return sorted(name for name in texts if not BrokerConfig.key(name).honoured)


def _is_ignored(name: str, text: str) -> bool:
    if name in BrokerConfig.KEYS:
        return False
    parse_value(BrokerConfig.key(name), text)
    return True


def resolve_aliases(texts: Mapping[str, str]) -> dict[str, str]:
    """Copies the values of old keys to the keys that replaced them, and the value of node.id to broker.id."""
    resolved = dict(texts)
    for old, name in _ALIASES.items():
        if old in texts:
            resolved.setdefault(name, texts[old])
    node_id = resolved.get("node.id", str(BrokerConfig.key("node.id").default))
    if resolved.setdefault("broker.id", node_id) != node_id:
        raise invalid_value("broker.id", resolved["broker.id"], f"the same as node.id ({node_id})")
    return resolved


def _parse_connection_overrides(text: str) -> dict[str, int]:
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, _, limit = entry.rpartition(":")
        if not address or not limit.strip().isdecimal():
            raise invalid_value("max.connections.per.ip.overrides", entry, "a list of address:connections pairs")
        overrides[address.strip()] = int(limit)
    return overrides


def _parse_voter(voter: str) -> QuorumNode:
    node_id, at, address = voter.partition("@")
    host, _, port = address.rpartition(":")
    if not (at and node_id.isdecimal() and host and port.isdecimal()):
        raise invalid_value("controller.quorum.voters", voter, "a list of id@host:port")
    return QuorumNode(int(node_id), Address(host.strip("[]"), int(port)))


def _parse_bootstrap_server(server: str) -> Address:
    host, _, port = server.rpartition(":")
    if not (host and port.isdecimal()):
        raise invalid_value("controller.quorum.bootstrap.servers", server, "a list of host:port")
    return Address(host.strip("[]"), int(port))


def _text(entries: Iterable[str]) -> str:
    return ",".join(entries)


def _log_defaults(values: Mapping[str, Any]) -> LogConfig:
    topic_values = {key.attribute: _first_set(key, values) for key in LogConfig.KEYS.values() if key.broker_keys}
    topic_values["retention_ms"] = max(topic_values["retention_ms"], -1)
    return LogConfig(**topic_values)


def _first_set(topic_key: ConfigKey, values: Mapping[str, Any]) -> Any:
    """Returns the strongest broker key that has a value; its unit is the last word of its name."""
    for name in topic_key.broker_keys:
        if (value := values[name.replace(".", "_")]) is not None:
            factor = _MS_PER_UNIT.get(name.rpartition(".")[2])
            return value if factor is None else value * factor
    raise AssertionError(f"no broker key of {topic_key.name} has a default")
