"""A broker for each module of tests here, its log as a list, and a client that says what it is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.testing import Broker
from tests.broker.network.loopback import Wire, content
from tests.broker.wire import RawClient
from tests.broker.witness import HealthyClient, Lines


@pytest.fixture(scope="module")
def log() -> Lines:
    return Lines()


@pytest.fixture(scope="module")
def broker(log: Lines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    config = {"socket.request.max.bytes": "4194304"}
    data_dir = tmp_path_factory.mktemp("broker") / "data"
    with Broker({"healthy": 1, "payments": 1}, config, data_dir=str(data_dir), report=log) as broker:
        broker.create_topics({"checked": 1}, {"barnabas.record.validation": "full"})
        broker.create_topics({"compacted": 1}, {"cleanup.policy": "compact"})
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture
def healthy(broker: Broker, log: Lines) -> Iterator[HealthyClient]:
    """Beside the test: nobody else may be disturbed, and no exception of ours show up in the log."""
    log.lines.clear()
    with HealthyClient(broker.port, "healthy") as client:
        yield client
    assert log.errors() == []


@pytest.fixture
def stranger(log: Lines) -> Iterator[RawClient]:
    """The first client of a broker whose log has not yet told of so many strangers that it keeps silent."""
    config = {"socket.request.max.bytes": "4194304"}
    with Broker({"payments": 1}, config, report=log) as broker, RawClient(broker.port) as client:
        yield client


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()
    assert wire.errors == [], "an exception escaped"


@pytest.fixture
def log_file(wire: Wire, tmp_path: Path) -> None:
    """Four megabytes for slices of the toy."""
    wire.toy.file = OsFiles().open(str(tmp_path / "00000000000000000000.log"), create=True)
    wire.toy.file.writev([content(4 * 1024 * 1024)])
