"""Listeners: the addresses a broker binds, and those it tells clients to dial. Kafka's syntax and rules.

- `NAME://host:port`; the name stands for a security protocol through listener.security.protocol.map. An empty host is
  every interface, [..] encloses an IPv6 address, port 0 takes any free port.
- Names differ; ports differ, unless one of two listeners is IPv4 and the other IPv6.
- Only PLAINTEXT is supported so far.
- Deviations: without advertised.listeners a client is answered with the address it dialled, so a listener on 0.0.0.0
  needs none; an unset inter.broker.listener.name is the first client listener; a port is at most 65535.
"""

from collections.abc import Iterable, Mapping

from barnabas.base.config_def import invalid_value
from barnabas.protocol.errors import InvalidConfig
from barnabas.protocol.named_tuple import NamedTuple

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS = ("PLAINTEXT",)
_HOST_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")


class Listener(NamedTuple):
    name: str
    host: str
    """Empty for every interface."""
    port: int
    security_protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine, whichever machine asks."""
    return host in ("localhost", "::1") or host.startswith("127.")


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parses NAME:PROTOCOL,... into the security protocol of each listener name."""
    protocols = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not colon or not name or protocol not in SECURITY_PROTOCOLS:
            rule = f"a list of NAME:PROTOCOL, where PROTOCOL is one of {', '.join(SECURITY_PROTOCOLS)}"
            raise invalid_value("listener.security.protocol.map", entry, rule)
        protocols[name] = protocol
    return protocols


def parse_listeners(key: str, entries: Iterable[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Parses the listeners of `key`: `listeners` or `advertised.listeners`. An advertised port may serve twice."""
    listeners = tuple(_parse_listener(key, entry, protocols) for entry in entries)
    _check_names(key, listeners)
    if key == "listeners":
        _check_ports(key, listeners)
    return listeners


def check_advertised(advertised: Iterable[Listener], listeners: Iterable[Listener]) -> None:
    names = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.host in ("", "0.0.0.0", "::"):
            rule = (
                "a host that clients can dial; leave advertised.listeners out to answer with the address they dialled"
            )
            raise invalid_value("advertised.listeners", listener, rule)
        if listener.name not in names:
            raise invalid_value("advertised.listeners", listener, f"a name out of listeners: {', '.join(names)}")


def _parse_listener(key: str, entry: str, protocols: Mapping[str, str]) -> Listener:
    name, separator, address = entry.partition("://")
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (name and separator and colon and port.isdecimal() and _HOST_CHARACTERS.issuperset(host)):
        raise invalid_value(key, entry, "NAME://host:port")
    if int(port) > 65535:
        raise invalid_value(key, entry, "NAME://host:port with a port between 0 and 65535")
    return Listener(name.upper(), host, int(port), _protocol_of(key, entry, name.upper(), protocols))


def _protocol_of(key: str, entry: str, name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise InvalidConfig(
            f"{key}: no security protocol is defined for listener {name}: listener.security.protocol.map has none"
        )
    if protocol not in SERVED_PROTOCOLS:
        raise InvalidConfig(f"{key}: {entry} asks for {protocol}, but only PLAINTEXT is supported so far")
    return protocol


def _check_names(key: str, listeners: tuple[Listener, ...]) -> None:
    if len({listener.name for listener in listeners}) < len(listeners):
        raise invalid_value(key, _text(listeners), "a list of listeners with different names")


def _check_ports(key: str, listeners: tuple[Listener, ...]) -> None:
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if port != 0 and len(sharing) > 1 and sorted(_ip_version(listener.host) for listener in sharing) != [4, 6]:
            rule = "a list of listeners with different ports, or one on IPv4 and one on IPv6"
            raise invalid_value(key, _text(sharing), rule)


def _ip_version(host: str) -> int:
    """Returns 4 or 6, or 0 for a name."""
    import socket

    for family, version in ((socket.AF_INET, 4), (socket.AF_INET6, 6)):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return version
    return 0


def _text(listeners: Iterable[Listener]) -> str:
    return ",".join(map(str, listeners))
