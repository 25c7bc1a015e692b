"""One more broker for a cluster that is there: a process that votes about nothing, of either kind."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from compat_tests.brokers import CLUSTER_ID, free_port, kafka_process, running, wait_for

READY_OF_BARNABAS = r"barnabas is ready on "
READY_OF_KAFKA = r"Kafka Server started"


class Member:
    """A broker that joins a cluster, ends and comes back; its folder and its port outlive its processes."""

    node_id: ClassVar = 4

    def __init__(self, folder: Path, controllers: str, settings: dict[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.settings = {
            "node.id": str(self.node_id),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controllers,
            "log.dirs": str(folder / "data"),
            **settings,
        }
        self._life = ExitStack()

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def formatting(self) -> tuple[str, ...]:
        """Returns how its directory is prepared: it joins a quorum that is there."""
        return ("--no-initial-controllers",) if "controller" in self.settings["process.roles"] else ()

    def start(self) -> None:
        """Returns when the controller lets it serve."""
        self.process = self._life.enter_context(self._running())

    def _running(self) -> AbstractContextManager[subprocess.Popen[str]]:
        raise NotImplementedError

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it, and returns when it has ended."""
        self.process.send_signal(number)
        self.process.wait(60)
        self._life.close()

    def __enter__(self) -> "Member":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._life.close()


class BarnabasMember(Member):
    @contextmanager
    def _running(self) -> Iterator[subprocess.Popen[str]]:
        config = self.folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        command = (sys.executable, "-m", "barnabas")
        formatting = ("format", "--config", str(config), "--cluster-id", CLUSTER_ID, "--ignore-formatted")
        subprocess.run(
            (*command, *formatting, *self.formatting), check=True, cwd=self.folder, stdout=subprocess.DEVNULL
        )
        start = [*command, "start", "--config", str(config)]
        log = self.folder / "broker.log"
        with running(start, log, cwd=self.folder) as (process, lines):
            wait_for(READY_OF_BARNABAS, lines, process, log)
            yield process


class KafkaMember(Member):
    @contextmanager
    def _running(self) -> Iterator[subprocess.Popen[str]]:
        own = (self.folder, self.node_id, self.port, 0, self.settings)
        with kafka_process(*own, *self.formatting) as (process, lines):
            wait_for(READY_OF_KAFKA, lines, process, self.folder / "broker.log")
            yield process


class KafkaController(KafkaMember):
    """A controller that follows the metadata, and votes once it is added to the quorum."""

    node_id: ClassVar = 5

    def __init__(self, folder: Path, controllers: str, settings: dict[str, str]) -> None:
        super().__init__(folder, controllers, settings)
        self.settings |= {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{self.port}"}
