"""Where the brokers of one machine listen, who votes, and what each is configured with."""

import pytest

from barnabas.base.network import Address
from barnabas.cluster.layout import (
    ClusterLayout,
    Ports,
    check_properties,
    data_dir_of,
    ports_of,
    voters_of,
    with_picked,
)
from barnabas.options import Failure, UsageError


@pytest.mark.parametrize(
    ("brokers", "controllers", "voters"),
    [
        (1, None, (1,)),
        (2, None, (1,)),  # two would both have to be there
        (3, None, (1, 2, 3)),
        (7, None, (1, 2, 3)),
        (7, 5, (1, 2, 3, 4, 5)),
        (3, 1, (1,)),
    ],
)
def test_who_votes(brokers: int, controllers: int | None, voters: tuple[int, ...]) -> None:
    assert voters_of(brokers, controllers) == voters


@pytest.mark.parametrize(("brokers", "controllers"), [(3, 2), (3, 4)])
def test_a_number_of_voters_that_makes_no_sense_is_refused(brokers: int, controllers: int) -> None:
    with pytest.raises(UsageError):
        voters_of(brokers, controllers)


@pytest.mark.parametrize(
    ("port", "internal_port", "expected"),
    [
        (9092, None, Ports({1: 9092, 2: 9093}, {1: 19092})),
        (9092, 5000, Ports({1: 9092, 2: 9093}, {1: 5000})),
        (0, None, Ports({1: 0, 2: 0}, {1: 0})),
        (9092, 0, Ports({1: 9092, 2: 9093}, {1: 0})),
    ],
)
def test_ports_follow_each_other(port: int, internal_port: int | None, expected: Ports) -> None:
    assert ports_of(port, internal_port, 2, (1,)) == expected


def test_a_port_is_for_clients_or_for_controllers() -> None:
    with pytest.raises(UsageError, match="port 9093 cannot be both"):
        ports_of(9092, 9093, 2, (1,))


def test_picked_ports_take_the_places_of_those_that_were_left_open() -> None:
    ports = with_picked(Ports({1: 0, 2: 9093}, {1: 0}), [7, 8])
    assert ports == Ports({1: 7, 2: 9093}, {1: 8})


LAYOUT = ClusterLayout(
    {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "./data",
        "node.id": "9",
        "num.partitions": "3",
        "default.replication.factor": "2",
    },
    "./data",
    3,
    Ports({1: 9092, 2: 9093, 3: 9094}, {1: 19092, 2: 19093}),
)


def test_each_broker_has_properties_of_its_own() -> None:
    properties = LAYOUT.properties_of(2)
    assert properties == properties | {
        "node.id": "2",
        "process.roles": "broker,controller",
        "log.dirs": "./data/2",
        "listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.1:19093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:19092,127.0.0.1:19093",
        "num.partitions": "3",
        "default.replication.factor": "2",  # what the user says stands
    }


@pytest.mark.parametrize(("brokers", "factor", "min_isr"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")])
def test_who_says_nothing_has_as_many_replicas_as_survive_the_loss_of_one(
    brokers: int, factor: str, min_isr: str
) -> None:
    ports = {node_id: 9091 + node_id for node_id in range(1, brokers + 1)}
    layout = ClusterLayout({"listeners": "PLAINTEXT://:9092"}, "./data", brokers, Ports(ports, {1: 19092}))
    properties = layout.properties_of(1)
    factors = [value for key, value in properties.items() if key.endswith("replication.factor")]
    assert (factors, properties["min.insync.replicas"]) == ([factor] * 3, min_isr)
    assert properties["transaction.state.log.min.isr"] == min_isr


def test_a_broker_that_does_not_vote_has_no_listener_for_controllers() -> None:
    properties = LAYOUT.properties_of(3)
    assert properties["process.roles"] == "broker"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9094"


def test_an_advertised_port_follows() -> None:
    advertised = "PLAINTEXT://my.host:9092,CONTROLLER://my.host:9093"  # as in the file that Kafka ships
    layout = LAYOUT._replace(properties={**LAYOUT.properties, "advertised.listeners": advertised})
    assert layout.properties_of(3)["advertised.listeners"] == "PLAINTEXT://my.host:9094"


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        ("PLAINTEXT://:9092", Address("0.0.0.0", 9093)),
        ("PLAINTEXT://[::1]:9092", Address("::1", 9093)),
    ],
)
def test_addresses_are_those_of_the_listener_for_clients(listener: str, address: Address) -> None:
    layout = LAYOUT._replace(properties={"listeners": listener})
    assert layout.client_address(2) == address


@pytest.mark.parametrize(
    "properties",
    [{"controller.quorum.voters": "1@h:9093"}, {"listeners": "A://:1,B://:2,CONTROLLER://:3"}],
)
def test_what_only_the_supervisor_can_decide_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(Failure):
        check_properties(properties)


def test_all_data_is_below_one_directory() -> None:
    assert data_dir_of({}) == "./data"
    assert data_dir_of({"log.dir": "/d/"}) == "/d"
    with pytest.raises(Failure, match="below one directory"):
        data_dir_of({"log.dirs": "/a,/b"})
