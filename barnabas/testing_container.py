"""The image under testcontainers, for those whose tests have containers already; `barnabas.testing` has it too.

The constructor and the methods are those of testcontainers' KafkaContainer. The broker must advertise the port that
Docker has chosen for the host, which is not known before the container runs: so the container waits for a file with it.
"""

import io
import shlex
import tarfile
import time
from typing import Any, Self

from testcontainers.core.container import DockerContainer

from barnabas.client.client import Client
from barnabas.client.connection import parse_addresses
from barnabas.client.errors import Unreachable

FOLDER = "/tmp"
ADVERTISED, COMPLETE = "barnabas-advertised", "barnabas-advertised-complete"
_POLL_S = 0.02


def entry_point(folder: str = FOLDER) -> list[str]:
    """Waits for the files of `advertisement`, then becomes the broker; the container's command is options for it."""
    wait = f"until [ -e {folder}/{COMPLETE} ]; do sleep {_POLL_S}; done; . {folder}/{ADVERTISED}"
    return ["sh", "-c", f'{wait}; exec python -m barnabas.container "$@"', "barnabas"]


def advertisement(listener: str) -> bytes:
    """Returns an archive of what the broker advertises and, after it, a file which says that the first one is whole."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        line = f"export KAFKA_ADVERTISED_LISTENERS={shlex.quote(listener)}\n".encode()
        for name, content in ((ADVERTISED, line), (COMPLETE, b"")):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


class BarnabasContainer(DockerContainer):
    """`with BarnabasContainer() as kafka: connect(kafka.get_bootstrap_server())`

    `with_env("KAFKA_NUM_PARTITIONS", "3")` sets a broker's configuration. Containers of the same network reach the
    broker by its alias, on port 9092.
    """

    def __init__(
        self,
        image: str = "barnabas:latest",
        port: int = 9093,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        **kwargs: Any,
    ) -> None:
        """Ignores `wait_strategy_check_string`: the broker is asked, and no line of its log is waited for."""
        super().__init__(image, **{"entrypoint": entry_point(), **kwargs})
        self.port = port
        self.listener_name = listener_name
        self.with_exposed_ports(port)
        self.with_env("KAFKA_LISTENERS", f"{listener_name}://0.0.0.0:{port},BROKER://0.0.0.0:9092")
        self.with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", f"BROKER:PLAINTEXT,{listener_name}:{security_protocol}")
        self.with_env("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER")

    def with_kwargs(self, **kwargs: Any) -> Self:
        super().with_kwargs(**{"entrypoint": entry_point(), **kwargs})
        return self

    def with_kraft(self) -> Self:
        """Changes nothing: there is nothing but KRaft."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        self.with_env("CLUSTER_ID", cluster_id)
        return self

    def get_bootstrap_server(self) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def start(self, timeout: float = 30) -> Self:
        """Returns when the broker answers."""
        try:
            super().start()  # which may have to fetch the image first
            deadline = time.monotonic() + timeout
            listener = f"{self.listener_name}://{self.get_bootstrap_server()}"
            self.get_wrapped_container().put_archive(FOLDER, advertisement(listener))
            self._wait_for_an_answer(deadline)
        except BaseException:
            self.stop()
            self._container = None  # a `with` stops it once more: that must not hide why it did not start
            raise
        return self

    def _wait_for_an_answer(self, deadline: float) -> None:
        addresses = parse_addresses(self.get_bootstrap_server())
        while True:
            try:
                with Client(addresses, timeout_s=max(0.1, deadline - time.monotonic())) as client:
                    client.any_node()
                return
            except Unreachable as error:
                container = self.get_wrapped_container()
                container.reload()
                if container.status == "exited" or time.monotonic() > deadline:
                    log = container.logs().decode(errors="replace")
                    raise RuntimeError(f"the broker in the container does not answer: {error}\n{log}") from None
            time.sleep(_POLL_S)
