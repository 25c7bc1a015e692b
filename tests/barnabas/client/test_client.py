"""The client against strangers; what it does with real brokers is tested in test_commands.py."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.connection import parse_addresses
from barnabas.client.errors import Unreachable
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.frame import encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

Answer = Callable[[bytes], bytes | None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("kafka", [("kafka", 9092)]),  # Kafka's own port
        ("[::1]:19092", [("::1", 19092)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_hosts_and_ports(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:70000", ":9092"])
def test_anything_else_is_no_bootstrap_server(text: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        parse_addresses(text)


def test_an_address_can_be_dialled_as_it_is_shown() -> None:
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]


class Stranger:
    """Accepts connections and answers each frame by a function; None closes the connection."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self.listener.getsockname())
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, suppress(ConnectionResetError):
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        while size := connection.recv(4, socket.MSG_WAITALL):
            frame = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            if (answer := self.answer(frame)) is None:
                return
            connection.sendall(answer)

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@pytest.fixture
def stranger() -> Iterator[Callable[[Answer], Client]]:
    started: list[Stranger] = []
    clients: list[Client] = []

    def start(answer: Answer) -> Client:
        started.append(Stranger(answer))
        clients.append(Client([started[-1].address], timeout_s=2))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
    for each in started:
        each.stop()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda frame: None, "closed the connection"),
        (lambda frame: b"HTTP/1.1 400 Bad Request\r\n\r\n", "no answer in time|does not speak Kafka's protocol"),
        (lambda frame: b"\x00\x00\x00\x01x", "does not speak Kafka's protocol"),
        (lambda frame: b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (lambda frame: b"\x00\x00\x00\x0a" + frame[4:8] + b"\xff" * 6, "does not speak Kafka's protocol"),
        (lambda frame: b"\x00\x00", "no answer in time"),
    ],
)  # fmt: skip
def test_who_does_not_answer_as_a_broker_is_unreachable(
    stranger: Callable[[Answer], Client], answer: Answer, complaint: str
) -> None:
    with pytest.raises(Unreachable, match=complaint):
        stranger(answer).any_node()


def test_a_broker_too_old_for_our_api_versions_is_understood(stranger: Callable[[Answer], Client]) -> None:
    """It answers UNSUPPORTED_VERSION in version 0, with the versions it has (KIP-511)."""

    def answer(frame: bytes) -> bytes:
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(api_key=18, min_version=0, max_version=2),
                ApiVersion(api_key=3, min_version=0, max_version=5),
            ],
        )
        return bytes(encode_response(response, 0, int.from_bytes(frame[4:8], "big"))[0])

    assert stranger(answer).any_node().versions == {18: range(0, 3), 3: range(0, 6)}


def test_an_api_without_a_common_version_is_named(stranger: Callable[[Answer], Client]) -> None:
    def answer(frame: bytes) -> bytes:
        response = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=3, min_version=90, max_version=99)])
        return bytes(encode_response(response, 3, int.from_bytes(frame[4:8], "big"))[0])

    with pytest.raises(KafkaError, match="MetadataRequest") as raised:
        stranger(answer).metadata()
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_the_first_server_that_answers_is_enough(stranger: Callable[[Answer], Client]) -> None:
    def answer(frame: bytes) -> bytes:
        return bytes(
            encode_response(ApiVersionsResponse(error_code=0, api_keys=[]), 3, int.from_bytes(frame[4:8], "big"))[0]
        )

    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = Address(*taken.getsockname())
    client = stranger(answer)
    client.bootstrap = [nobody, *client.bootstrap]
    assert client.any_node().address == client.bootstrap[1]


def test_nobody_listening_comes_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = Address(*taken.getsockname())
    with pytest.raises(Unreachable, match="connection refused") as raised:
        Client([nobody]).metadata()
    assert "barnabas start" in raised.value.hint
