"""What the listening sockets are told before anybody connects."""

import socket

import pytest

from barnabas.broker.acceptor import Acceptor
from barnabas.broker.config import BrokerConfig
from barnabas.broker.connection import Connection, Reply
from barnabas.broker.loop import Loop
from tests.storage.fakes import FakeReport


def fail(error: BaseException) -> None:
    raise error


def congestion_control_of(connected: socket.socket) -> bytes:
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="only Linux lets a program choose")
@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # those who come from elsewhere need what the administrator chose
    ],
)
def test_connections_of_a_loopback_address_are_not_paced(host: str, is_ours: bool) -> None:
    with socket.socket() as untouched:
        default = congestion_control_of(untouched)
    accepted: list[Connection] = []

    def dispatch(_frame: memoryview, connection: Connection) -> Reply:
        accepted.append(connection)
        return None

    loop = Loop(fail)
    acceptor = Acceptor(BrokerConfig.parse({"listeners": f"PLAINTEXT://{host}:0"}), loop=loop, report=FakeReport())
    (listener,) = acceptor.bind()
    acceptor.accept(dispatch)
    with socket.create_connection(("127.0.0.1", listener.port)) as client:
        client.sendall(b"\0\0\0\x01x")
        while not accepted:
            loop.run_once()
        assert congestion_control_of(accepted[0]._socket) == (b"reno" if is_ours else default)
        assert congestion_control_of(client) == default
        accepted[0].close()
    acceptor.close()
    loop.close()
