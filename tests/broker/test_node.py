"""Where clients find the brokers of a cluster, and how handlers wait for the metadata."""

from threading import Event

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.network.session import Session
from barnabas.broker.node import Node
from barnabas.protocol.stored.metadata_records import TopicRecord
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, commit, fence, on_loop, register
from tests.replication.clusters import uuid

DIALLED = ("10.1.2.3", 9_092)


def addresses(broker: Broker, *, fenced_too: bool = False) -> dict[int, tuple[str, int]]:
    session = Session(listener="PLAINTEXT", local=DIALLED, peer=("10.9.9.9", 5_000))
    found = on_loop(broker, lambda: broker._server.node.endpoints(session, fenced_too=fenced_too))
    return {registered.broker_id: (host, port) for registered, host, port in found}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.1.1", "::1", "", "0.0.0.0", "::"])
def test_a_sibling_on_the_same_machine_is_found_where_the_client_dialled(host: str) -> None:
    with Broker() as broker:
        register(broker, host=host)
        assert addresses(broker) == {1: DIALLED, SIBLING: (DIALLED[0], 19_002)}


def test_a_sibling_with_an_address_of_its_own_is_found_there() -> None:
    with Broker() as broker:
        register(broker, host="kafka-2.example.com")
        assert addresses(broker)[SIBLING] == ("kafka-2.example.com", 19_002)


@pytest.mark.parametrize("advertised", ["kafka-1.example.com", "localhost"])
def test_who_advertises_an_address_means_what_the_others_advertise(advertised: str) -> None:
    with Broker(config={"advertised.listeners": f"PLAINTEXT://{advertised}:9092"}) as broker:
        register(broker, host="localhost")
        assert addresses(broker) == {1: (advertised, 9_092), SIBLING: ("localhost", 19_002)}


def test_a_listener_on_every_interface_is_found_where_the_client_dialled_and_so_are_its_siblings() -> None:
    with Broker(config={"listeners": "PLAINTEXT://0.0.0.0:0"}) as broker:
        register(broker, host="localhost")
        assert addresses(broker) == {1: DIALLED, SIBLING: (DIALLED[0], 19_002)}


def test_a_fenced_broker_is_not_found_and_one_that_is_about_to_stop_still_is() -> None:
    with Broker() as broker:
        register(broker, 3, in_controlled_shutdown=True)
        register(broker)
        fence(broker)
        assert addresses(broker).keys() == {1, 3}
        assert addresses(broker, fenced_too=True).keys() == {1, 2, 3}


def test_a_broker_without_the_clients_listener_is_not_found_there() -> None:
    with Broker() as broker:
        register(broker, end_points=[])
        assert addresses(broker).keys() == {1}


def waiting_for(broker: Broker, name: str, *, timeout_ms: int) -> tuple[Event, list[bool]]:
    settled, outcome = Event(), []
    node: Node = broker._server.node

    def done(promise: Promise[bool]) -> None:
        outcome.append(promise.value)
        settled.set()

    on_loop(broker, lambda: node.when_image(lambda image: image.topic(name) is not None, timeout_ms).when_done(done))
    return settled, outcome


def test_who_waits_for_the_metadata_is_told_when_they_are_there() -> None:
    with Broker() as broker:
        settled, outcome = waiting_for(broker, "orders", timeout_ms=60_000)
        commit(broker, TopicRecord(name="payments", topic_id=uuid(8)))
        assert not settled.is_set()
        commit(broker, TopicRecord(name="orders", topic_id=uuid(7)))
        assert settled.wait(10)
        assert outcome == [True]
        settled, outcome = waiting_for(broker, "orders", timeout_ms=60_000)
        assert (settled.is_set(), outcome) == (True, [True]), "at once"


def test_who_waits_for_the_metadata_in_vain_is_told_after_a_while() -> None:
    with Broker() as broker:
        settled, outcome = waiting_for(broker, "orders", timeout_ms=60_000)
        broker.advance(61)
        assert settled.wait(10)
        assert outcome == [False]
        commit(broker, TopicRecord(name="orders", topic_id=uuid(7)))
        assert outcome == [False], "once"
