"""`BarnabasContainer` where no daemon answers: what it shares with KafkaContainer, and how it learns its port."""

import inspect
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from testcontainers.community.kafka import KafkaContainer

import barnabas.testing
from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.testing import BarnabasContainer
from barnabas.testing_container import advertisement, entry_point
from tests.barnabas.processes import READY, TIMEOUT_S
from tests.container.test_entry_point import QUIET, free_ports

INTERNAL = {"configure", "tc_start", "create_file"}
"""How KafkaContainer starts; nobody calls them from outside."""


def parameters(function: object) -> dict[str, object]:
    return {name: about.kind for name, about in inspect.signature(function).parameters.items()}  # type: ignore[arg-type]


def test_it_has_the_methods_of_the_container_that_it_replaces() -> None:
    theirs = {name for name, _ in inspect.getmembers(KafkaContainer, inspect.isfunction) if not name.startswith("_")}
    for name in theirs - INTERNAL:
        assert parameters(getattr(BarnabasContainer, name)) == parameters(getattr(KafkaContainer, name)), name
    assert parameters(BarnabasContainer) == parameters(KafkaContainer)


def test_those_who_want_a_broker_alone_load_no_containers() -> None:
    code = "import sys, barnabas.testing; print({'testcontainers', 'docker'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout.strip() == "set()"


def test_whoever_lacks_testcontainers_is_told_what_to_install() -> None:
    code = "import sys; sys.modules['testcontainers'] = None; from barnabas.testing import BarnabasContainer"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stderr.splitlines()[-1].endswith("needs testcontainers: pip install 'barnabas[testcontainers]'")


def test_no_other_name_is_made_up() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'KafkaContainer'"):
        _ = barnabas.testing.KafkaContainer


def test_the_broker_starts_when_it_is_told_its_address(tmp_path: Path) -> None:
    """The entry point as a process of this machine, waiting in another folder."""
    (port,) = free_ports(1)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    command = [*entry_point(str(tmp_path)), "--set", "node.id=7"]
    with subprocess.Popen(command, env=QUIET | environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            with tarfile.open(fileobj=io.BytesIO(advertisement("PLAINTEXT://docker.host:4711"))) as archive:
                assert process.poll() is None, "it waits"
                archive.extractall(tmp_path, filter="data")
            assert process.stdout is not None
            assert READY.fullmatch(process.stdout.readline())
            with Client([Address("127.0.0.1", port)]) as client:
                assert client.metadata(()).brokers == {7: Address("docker.host", 4711)}
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == 0, "the broker took the shell's place: signals reach it"
