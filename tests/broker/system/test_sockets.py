"""What the production network asks of its sockets."""

import socket
from collections.abc import Iterator

import pytest

from barnabas.base.network import Address
from barnabas.broker.system.environment import System, system_environment
from tests.fakes import FakeReport


@pytest.fixture
def system() -> Iterator[System]:
    system = system_environment(FakeReport())
    yield system
    system.workers.close()
    system.loop.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")
def test_a_connection_to_another_node_breaks_when_its_machine_has_vanished(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = system.environment.network.connect(Address(*server.getsockname()))
        connected: socket.socket = transport._socket  # type: ignore[attr-defined]
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 5_000
        transport.close()


def test_a_connection_to_another_node_has_a_higher_descriptor_than_those_of_clients(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = system.environment.network.connect(Address(*server.getsockname()))
        accepted, _ = server.accept()
        with accepted:
            assert transport._socket.fileno() > accepted.fileno() + 100  # type: ignore[attr-defined]
        transport.close()
