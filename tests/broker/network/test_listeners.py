"""Listeners: syntax, and the rules between them."""

import pytest

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.listeners import Listener, parse_listeners, parse_protocol_map
from barnabas.protocol.errors import InvalidConfig
from tests.kafka_config_probe import accepted_by_kafka, is_accepted

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INSIDE": "PLAINTEXT", "SSL": "SSL", "SASL_SSL": "SASL_SSL"}


@pytest.mark.parametrize(
    ("entry", "listener"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")),
        ("plaintext://localhost:9092", Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT")),  # names have no case
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092, "PLAINTEXT")),  # every interface
        ("PLAINTEXT://0.0.0.0:0", Listener("PLAINTEXT", "0.0.0.0", 0, "PLAINTEXT")),  # any free port
        ("PLAINTEXT://[::1]:9092", Listener("PLAINTEXT", "::1", 9092, "PLAINTEXT")),
        ("PLAINTEXT://[fe80::1%eth0]:9092", Listener("PLAINTEXT", "fe80::1%eth0", 9092, "PLAINTEXT")),
        ("INSIDE://a_b.example:1", Listener("INSIDE", "a_b.example", 1, "PLAINTEXT")),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(entry: str, listener: Listener) -> None:
    assert parse_listeners("listeners", [entry], PROTOCOLS) == (listener,)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("localhost:9092", "must be NAME://host:port"),
        ("PLAINTEXT://localhost", "must be NAME://host:port"),
        ("://localhost:9092", "must be NAME://host:port"),
        ("PLAINTEXT://local host:9092", "must be NAME://host:port"),
        ("PLAINTEXT://localhost:9092/", "must be NAME://host:port"),
        ("PLAINTEXT://localhost:-1", "must be NAME://host:port"),
        ("PLAINTEXT://localhost:65536", "a port between 0 and 65535"),
        ("OUTSIDE://localhost:9092", "no security protocol is defined for listener OUTSIDE"),
        ("SSL://localhost:9092", "SSL://localhost:9092 asks for SSL, but only PLAINTEXT is supported so far"),
        ("SASL_SSL://localhost:9092", "asks for SASL_SSL, but only PLAINTEXT is supported so far"),
    ],
)
def test_a_listener_that_cannot_be_is_refused_with_the_reason(entry: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_listeners("listeners", [entry], PROTOCOLS)
    assert refusal.value.message.endswith(reason) or reason in refusal.value.message
    assert "listeners" in refusal.value.message


@pytest.mark.parametrize(
    ("text", "protocols"),
    [
        ("", {}),
        ("A:PLAINTEXT", {"A": "PLAINTEXT"}),
        (" a : plaintext , B:SSL,", {"A": "PLAINTEXT", "B": "SSL"}),
    ],
)
def test_the_protocol_map(text: str, protocols: dict[str, str]) -> None:
    assert parse_protocol_map(text) == protocols


@pytest.mark.parametrize("text", ["A", "A:", ":SSL", "A:PLAIN"])
def test_a_protocol_map_that_names_no_protocol_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"listener\.security\.protocol\.map.*PLAINTEXT, SSL"):
        parse_protocol_map(text)


MAP = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"


RULES = [
    ({"listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093"}, True, True),
    ({"listeners": "PLAINTEXT://a:9092, CONTROLLER://a:9093"}, True, True),  # blanks are forgiven
    ({"listeners": ""}, False, False),
    ({"listeners": "PLAINTEXT://a:9092,,CONTROLLER://a:9093"}, False, False),
    ({"listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9092"}, False, False),  # one port, two listeners
    ({"listeners": "PLAINTEXT://a:0,CONTROLLER://a:0"}, True, True),  # two free ports
    ({"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092"}, True, True),  # IPv4 and IPv6
    ({"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.2:9092"}, False, False),
    ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2,CONTROLLER://a:3"}, False, False),  # one name, two listeners
    ({"listeners": "INSIDE://a:1,CONTROLLER://a:3"}, False, False),  # no protocol
    ({"listeners": "CONTROLLER://a:3"}, False, False),  # none for clients
    ({"advertised.listeners": "PLAINTEXT://x:1"}, True, True),
    ({"advertised.listeners": ""}, False, False),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, False, False),  # nobody can dial it
    ({"advertised.listeners": "PLAINTEXT://x:1,PLAINTEXT://y:2"}, False, False),
    ({"advertised.listeners": "INSIDE://x:1"}, False, False),
    ({"advertised.listeners": "INSIDE://x:1", "listener.security.protocol.map": MAP}, False, False),  # not bound
    ({"inter.broker.listener.name": "PLAINTEXT"}, True, True),
    ({"inter.broker.listener.name": "INSIDE"}, False, False),
    ({"inter.broker.listener.name": "CONTROLLER"}, False, False),
    # Where we deviate, on purpose:
    ({"listeners": "PLAINTEXT://a:9092"}, True, False),  # a quorum of one needs no listener of its own
    (
        {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"},
        True,
        False,
    ),  # the dialled address is the answer
    ({"listeners": "INSIDE://a:1,CONTROLLER://a:3", "listener.security.protocol.map": MAP}, True, False),
    ({"listeners": "PLAINTEXT://a:65536,CONTROLLER://a:3"}, False, True),
    ({"advertised.listeners": "PLAINTEXT://:9092"}, False, True),  # Kafka advertises the name of its machine
]


@pytest.mark.parametrize(("texts", "expected", "_kafka"), RULES)
def test_the_rules_between_listeners(texts: dict[str, str], expected: bool, _kafka: bool) -> None:
    base = {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
    assert is_accepted(BrokerConfig.parse, base | texts) == expected


def test_the_rules_between_listeners_are_kafkas_but_for_the_named_exceptions() -> None:
    assert accepted_by_kafka("broker", [texts for texts, _, _ in RULES]) == [kafka for _, _, kafka in RULES]


def test_a_broker_listens_on_this_machine_alone_by_default() -> None:
    config = BrokerConfig()
    assert config.client_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert config.advertised == {}
    assert config.inter_broker_listener is config.client_listeners[0]


def test_the_controllers_listeners_are_kept_from_clients() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "CONTROLLER://:9093,PLAINTEXT://:9092",
            "advertised.listeners": "PLAINTEXT://broker.example:19092",
        }
    )
    assert [listener.port for listener in config.client_listeners] == [9092]
    assert [listener.port for listener in config.controller_listeners] == [9093]
    assert config.advertised["PLAINTEXT"].host == "broker.example"


def test_brokers_dial_each_other_on_the_listener_that_is_named() -> None:
    texts = {"listeners": "PLAINTEXT://:1,INSIDE://:2", "listener.security.protocol.map": MAP}
    first = BrokerConfig.parse(texts).inter_broker_listener
    named = BrokerConfig.parse(texts | {"inter.broker.listener.name": "inside"}).inter_broker_listener
    assert (first and first.port, named and named.port) == (1, 2)


@pytest.mark.parametrize("entry", ["PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://[::1]:9092", "PLAINTEXT://:9092"])
def test_a_listener_prints_as_it_is_written(entry: str) -> None:
    assert str(parse_listeners("listeners", [entry], PROTOCOLS)[0]) == entry
