"""What the listening sockets are told before anybody connects."""

import socket

import pytest

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.acceptor import Acceptor
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from barnabas.broker.system.environment import system_environment
from barnabas.broker.system.sockets import SocketTransport
from tests.fakes import FakeReport


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
    accepted: list[Session] = []

    def dispatch(frame: memoryview, session: Session) -> Reply:
        accepted.append(session)
        return None

    environment, loop, workers, _ = system_environment(FakeReport())
    config = BrokerConfig.parse({"listeners": f"PLAINTEXT://{host}:0"})
    acceptor = Acceptor(config, environment, Buffers())
    (listener,) = acceptor.bind(config.client_listeners)
    acceptor.accept(dispatch)
    with socket.create_connection(("127.0.0.1", listener.port)) as client:
        client.sendall(b"\0\0\0\x01x")
        while not accepted:
            loop.run_once()
        (connection,) = acceptor._idle_timers
        served = connection._transport
        assert isinstance(served, SocketTransport)
        assert congestion_control_of(served._socket) == (b"reno" if is_ours else default)
        assert congestion_control_of(client) == default
    acceptor.close()
    workers.close()
    loop.close()
