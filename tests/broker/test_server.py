"""A broker as a whole: what keeps it from starting, and what it tells about what it does."""

import errno
import shutil
from pathlib import Path

import pytest

from barnabas.broker.server import StopFailed, StorageLost
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode, InvalidConfig
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.storage.flush_plan import FlushPlan
from barnabas.storage.log_dir import LogDir
from barnabas.testing import Broker
from tests.broker.wire import RawClient, good
from tests.fakes import FakeReport


def test_a_broker_that_is_asked_for_acls_does_not_start_without_them() -> None:
    broker = Broker(config={"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    with pytest.raises(InvalidConfig, match=r"authorizer\.class\.name"):
        broker.start()


@pytest.mark.parametrize(
    ("resource_type", "name", "key", "line"),
    [
        (ResourceType.TOPIC, "orders", "retention.ms", "topic orders has a new configuration: retention.ms=1000"),
        (
            ResourceType.BROKER,
            "1",
            "log.retention.ms",
            "this broker's configuration changed: log.retention.ms",
        ),
    ],
)
def test_the_log_tells_of_configuration_that_was_altered(resource_type: int, name: str, key: str, line: str) -> None:
    report = FakeReport()
    config = AlterableConfig(name=key, config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    with Broker(topics={"orders": 1}, report=report) as broker, RawClient(broker.port) as client:
        response = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert response.responses[0].error_code == 0
    assert report.having(line)


def test_new_defaults_that_do_not_go_with_a_topic_end_no_broker(tmp_path: Path) -> None:
    """The topic was judged under the old ones. As in Kafka, a change of defaults asks no topic."""
    changes = [
        (ResourceType.TOPIC, "orders", "max.compaction.lag.ms", "4"),
        (ResourceType.BROKER, "", "log.cleaner.min.compaction.lag.ms", "5"),
    ]
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert client.produce("orders", good()).error_code == ErrorCode.NONE
        for resource_type, name, key, value in changes:
            config = AlterableConfig(name=key, config_operation=0, value=value)
            resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
            client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert client.produce("orders", good()).error_code == ErrorCode.NONE
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert client.produce("orders", good()).error_code == ErrorCode.NONE


def test_a_partition_whose_directory_vanished_begins_anew_and_the_log_says_what_is_lost(tmp_path: Path) -> None:
    report = FakeReport()
    with Broker(topics={"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert client.produce("orders", good(3)).error_code == 0
    shutil.rmtree(tmp_path / "orders-0")
    with Broker(data_dir=str(tmp_path), report=report) as broker, RawClient(broker.port) as client:
        assert client.produce("orders", good(1)).base_offset == 0
    assert report.having("orders-0: its directory is gone, and with it what was stored below offset 3")


def test_a_log_dir_that_cannot_be_opened_does_not_keep_the_broker_from_serving_the_others(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, data_dir=str(tmp_path / "good")):
        pass
    (tmp_path / "file").touch()
    report = FakeReport()
    broker = Broker(config={"log.dirs": f"{tmp_path}/good,{tmp_path}/file/bad"}, report=report).start()
    with RawClient(broker.port) as client:
        assert client.produce("orders", good(1)).error_code == 0
    with pytest.raises(StopFailed, match="is offline"):
        broker.stop()
    assert report.having("file/bad goes offline")
    assert report.having("good keeps ")


@pytest.mark.parametrize("step", ["stop", "close"])
def test_a_stop_that_fails_ends_the_broker_and_says_so(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    broker = Broker().start()
    server = broker._server
    assert server is not None
    monkeypatch.setattr(server.node.coordinators if step == "stop" else server._logs, step, fail)
    with pytest.raises(StopFailed, match=r"could not stop cleanly: .*Input/output error"):
        broker.stop()
    broker.stop()  # it did end


def test_a_stop_that_leaves_something_unwritten_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    broker = Broker(topics={"orders": 1}, data_dir=str(tmp_path)).start()
    with RawClient(broker.port) as client:
        assert client.produce("orders", good()).error_code == 0
    monkeypatch.setattr(FlushPlan, "sync_data", fail)
    with pytest.raises(StopFailed, match=r"is offline: .*No space left"):
        broker.stop()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def go_offline(log_dir: LogDir) -> None:
    log_dir.go_offline(OSError(errno.EIO, "Input/output error"))


@pytest.mark.parametrize(
    ("log_dirs", "failing", "lost"),
    [
        (1, "orders-0", "the last log dir"),
        (2, "__cluster_metadata-0", "the log dir with the metadata"),  # nothing can be decided any more
        (2, "orders-0", None),  # the other one serves
    ],
)
def test_a_broker_ends_when_it_has_lost_what_it_cannot_do_without(
    tmp_path: Path, log_dirs: int, failing: str, lost: str | None
) -> None:
    dirs = [tmp_path / str(number) for number in range(log_dirs)]
    broker = Broker(topics={"orders": 1}, config={"log.dirs": ",".join(map(str, dirs))}).start()
    server = broker._server
    assert server is not None
    assert server._logs is not None
    bad = next(each for each in server._logs.log_dirs if Path(each.path, failing).exists())
    broker._running.call(go_offline, bad)
    if lost is None:
        with RawClient(broker.port) as client:
            assert client.produce("orders", good()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        raised: type[Exception] = StopFailed
        said = "is offline"
    else:
        assert broker._thread is not None
        broker._thread.join(10)
        raised, said = StorageLost, f"{lost}, .*, is offline: .*Input/output error"
    with pytest.raises(raised, match=said):
        broker.stop()
