"""The table of handlers says where each API answers and what it takes to be allowed to call it."""

import inspect
from collections.abc import Iterator

import pytest

from barnabas.broker.authorization import (
    ALL_CLUSTER_OPERATIONS,
    ALL_GROUP_OPERATIONS,
    ALL_TOPIC_OPERATIONS,
    AclResource,
)
from barnabas.broker.dispatch import Dispatcher
from barnabas.broker.handlers import EVERYWHERE, HANDLERS, Handler
from barnabas.broker.handlers.envelope import FORWARDED
from barnabas.broker.network.session import ListenerType, Session
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.frame import decode_response, encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.testing import Broker
from tests.broker.test_hot_path import on_broker_thread
from tests.broker.wire import good, produce_request
from tests.protocol.kafka_schemas import kafka_schemas

ROWS = pytest.mark.parametrize(("api_key", "handler"), HANDLERS.items(), ids=lambda each: getattr(each, "name", None))
SESSION = Session(listener="CONTROLLER", local=("127.0.0.1", 9093), peer=("127.0.0.1", 1))


@ROWS
def test_an_api_answers_only_where_it_does_in_kafka(api_key: ApiKey, handler: Handler) -> None:
    kafkas = kafka_schemas()[handler.request.__name__]["listeners"]
    assert {listener.name.lower() for listener in handler.listeners} <= set(kafkas)


@ROWS
def test_every_api_but_one_needs_a_permission(api_key: ApiKey, handler: Handler) -> None:
    assert bool(handler.authorize) == (api_key != ApiKey.API_VERSIONS)
    allowed = {
        AclResource.TOPIC: ALL_TOPIC_OPERATIONS,
        AclResource.GROUP: ALL_GROUP_OPERATIONS,
        AclResource.CLUSTER: ALL_CLUSTER_OPERATIONS,
    }
    for operation, resource in handler.authorize:
        if resource in allowed:
            assert allowed[resource] & 1 << operation, "an operation that the resource does not have"


@ROWS
def test_what_a_broker_hands_on_for_its_clients_is_taken_from_an_envelope(api_key: ApiKey, handler: Handler) -> None:
    if handler.listeners == EVERYWHERE and "context.for_controller" in inspect.getsource(handler.handle):
        assert api_key in FORWARDED


def test_all_operations_are_the_bits_that_kafka_answers() -> None:
    assert (ALL_TOPIC_OPERATIONS, ALL_GROUP_OPERATIONS, ALL_CLUSTER_OPERATIONS) == (3576, 3400, 8096)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"orders": 1}) as broker:
        yield broker


def asked(broker: Broker, listener_type: ListenerType, frame: bytes) -> object:
    assert broker._server is not None
    dispatch = Dispatcher(broker._server.node, listener_type)

    def call() -> object:
        try:
            return dispatch(memoryview(bytearray(frame[4:])), SESSION)
        except ProtocolError as error:
            return error

    return on_broker_thread(broker, call)


@pytest.mark.parametrize("listener_type", ListenerType)
def test_api_versions_names_what_the_listener_serves(broker: Broker, listener_type: ListenerType) -> None:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")
    reply = asked(broker, listener_type, bytes(encode_request(request, 3, 1, "test")))
    assert isinstance(reply, tuple)
    _, answer = decode_response(ApiVersionsResponse, 3, memoryview(bytes(reply[0])[4:]))
    served = {api_key for api_key, handler in HANDLERS.items() if listener_type in handler.listeners}
    assert {api.api_key for api in answer.api_keys} == served


@pytest.mark.parametrize(
    "frame",
    [
        bytes(encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, 1, "test")),
        bytes(encode_request(produce_request("orders", {0: good()}), 9, 1, "test")),  # not by the quick way either
    ],
)
def test_what_a_listener_does_not_serve_is_refused_there(broker: Broker, frame: bytes) -> None:
    assert isinstance(asked(broker, ListenerType.CONTROLLER, frame), ProtocolError)
    assert not isinstance(asked(broker, ListenerType.BROKER, frame), ProtocolError)
