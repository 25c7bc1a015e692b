"""A broker behind a gate that can be narrowed: then so much of each connection comes through and no more.

Whoever writes or reads is caught in the middle of it, however fast the machine is and however late the test looks.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Self

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

    def start(self) -> Self:
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
        self._received_bytes: list[int] = []
        """By each client's connection."""
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def leads_to(self, port: int) -> None:
        if not self._broker_port:
            self._broker_port = port
            self._run(self._accept)

    @property
    def received_bytes(self) -> int:
        """How much all clients have got from the broker."""
        return sum(self._received_bytes)

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
                self._run(self._forward, broker, client, lambda: self._received_max, self._count_received())

    def _count_received(self) -> Callable[[int], None]:
        """A counter of its own for each connection: two threads would lose what they add to one."""
        place = len(self._received_bytes)
        self._received_bytes.append(0)

        def count(passed_bytes: int) -> None:
            self._received_bytes[place] = passed_bytes

        return count

    def _forward(
        self,
        source: socket.socket,
        target: socket.socket,
        limit: Callable[[], float],
        count: Callable[[int], None] = lambda passed_bytes: None,
    ) -> None:
        passed_bytes = 0
        with suppress(OSError):
            while data := source.recv(4096):
                passed_bytes += len(data)
                if passed_bytes > limit():
                    with self._widened:
                        self._widened.wait_for(lambda: limit() == inf)
                    break
                count(passed_bytes)
                target.sendall(data)
        for connection in (source, target):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
