"""A broker behind a gate that can be narrowed: then so much of each connection comes through and no more.

Whoever writes or reads is caught in the middle of it, however fast the machine is and however late the test looks.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

from tests.processes.broker_process import BrokerProcess

HOST = "127.0.0.1"


class GatedBroker(BrokerProcess):
    """Its clients only know the gate's address."""

    def __init__(self, data_dir: Path, *, settings: dict[str, str]) -> None:
        self.gate = Gate()
        super().__init__(data_dir, settings={**settings, "advertised.listeners": f"PLAINTEXT://{self.gate.address}"})

    @property
    def bootstrap_servers(self) -> str:
        return self.gate.address

    def start(self) -> "GatedBroker":
        super().start()
        self.gate.leads_to(self.port)
        return self

    def stop(self) -> int:
        self.gate.close()
        return super().stop()


class Gate:
    """Two threads for each connection, one each way."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        self._broker_port = 0
        self._sent_max = self._received_max = inf
        self._widened = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def leads_to(self, port: int) -> None:
        if not self._broker_port:
            self._broker_port = port
            self._run(self._accept)

    @contextmanager
    def narrowed(self, *, sent: float = inf, received: float = inf) -> Iterator[None]:
        """No connection sends or receives more bytes than this. Those that would have are cut in the end: what they
        still had to say would otherwise arrive when nobody expects it any more."""
        self._sent_max, self._received_max = sent, received
        try:
            yield
        finally:
            with self._widened:
                self._sent_max = self._received_max = inf
                self._widened.notify_all()

    def close(self) -> None:
        for connection in (self._listener, *self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in (self._listener, *self._sockets):
            connection.close()

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                try:
                    broker = socket.create_connection((HOST, self._broker_port))
                except OSError:
                    client.close()  # the broker was killed
                    continue
                self._sockets.append(broker)
                self._run(self._forward, client, broker, lambda: self._sent_max)
                self._run(self._forward, broker, client, lambda: self._received_max)

    def _forward(self, source: socket.socket, target: socket.socket, limit: Callable[[], float]) -> None:
        passed_bytes = 0
        with suppress(OSError):
            while data := source.recv(4096):
                passed_bytes += len(data)
                if passed_bytes > limit():
                    with self._widened:
                        self._widened.wait_for(lambda: limit() == inf)
                    break
                target.sendall(data)
        for connection in (source, target):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
