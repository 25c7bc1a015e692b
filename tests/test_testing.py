"""The broker for other people's tests: quick, leaves nothing behind, and says why when it cannot start."""

import gc
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing import Broker
from tests.broker.wire import CutOff, RawClient, fetch_request, good, produce_request, values_of
from tests.broker.witness import Lines

START_S_MAX = 1.0
"""A tenth of it is the promise; a busy machine does not break it."""


@pytest.mark.parametrize(
    ("config", "delay_ms"),
    [({}, 0), ({"group.initial.rebalance.delay.ms": "3000"}, 3000)],  # unless a test is about just that
)
def test_the_first_consumer_of_a_group_does_not_wait_for_others(config: dict[str, str], delay_ms: int) -> None:
    with Broker(config=config) as broker:
        assert broker._server is not None
        assert broker._server.config.group_initial_rebalance_delay_ms == delay_ms


def topics_of(broker: Broker) -> dict[str, int]:
    with RawClient(broker.port) as client:
        return {topic.name: len(topic.partitions) for topic in client.call(MetadataRequest(topics=None)).topics}


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """No thread, no file descriptor, no directory."""
    gc.collect()  # what other tests left behind must not go in between
    threads, descriptors, folders = state()
    yield
    threads_left, descriptors_left, folders_left = state()
    assert threads_left <= threads
    assert folders_left <= folders
    assert descriptors_left <= descriptors


def state() -> tuple[set[str], int, set[str]]:
    folders = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("barnabas-")}
    return {thread.name for thread in threading.enumerate()}, len(os.listdir("/proc/self/fd")), folders


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary directories of other tests, which run beside these, do not count."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


def test_a_broker_serves_the_topics_that_it_was_asked_for() -> None:
    with Broker({"orders": 3, "payments": 1}) as broker:
        assert topics_of(broker) == {"orders": 3, "payments": 1}
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"


def test_a_broker_is_ready_quickly(record_property: Callable[[str, object], None]) -> None:
    with Broker({"orders": 1}):
        pass  # imports and codecs are warm from here on
    took_s = []
    for _ in range(5):
        started = time.perf_counter()
        with Broker({"orders": 1}):
            took_s.append(time.perf_counter() - started)
    record_property("start_ms", round(min(took_s) * 1_000))
    assert min(took_s) < START_S_MAX


def test_twenty_brokers_leave_nothing_behind() -> None:
    with Broker({"orders": 1}) as broker, RawClient(broker.port) as client:
        client.produce("orders", good())
    with nothing_left_behind():
        for _ in range(20):
            with Broker({"orders": 2}) as broker, RawClient(broker.port) as client:
                assert client.produce("orders", good(), partition=1).error_code == 0
                assert os.path.isdir(broker.data_dir)
        assert not os.path.exists(broker.data_dir)


def test_a_broker_with_clients_that_wait_stops_and_answers_them() -> None:
    with nothing_left_behind():
        broker = Broker({"orders": 1}).start()
        with RawClient(broker.port) as waiting, RawClient(broker.port) as idle:
            idle.call(MetadataRequest(topics=[]))
            waiting.call(MetadataRequest(topics=[]))
            waiting.send(fetch_request("orders", {0: 0}, max_wait_ms=600_000), 12)
            started = time.monotonic()
            broker.stop()
            assert time.monotonic() - started < 4
            try:
                assert values_of(waiting.receive().responses[0].partitions[0]) == []
            except CutOff:
                pass  # it stopped before it had read the request
            assert idle.is_cut_off()


def test_what_was_acknowledged_before_a_stop_is_there_after_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with Broker({"orders": 1}, data_dir=folder) as broker, RawClient(broker.port) as client:
        frames = b"".join(bytes(client.frame(produce_request("orders", {0: good()}), 12)) for _ in range(50))
        client.socket.sendall(frames)
        acknowledged = 0
        for _ in range(10):
            acknowledged += client.receive().responses[0].partition_responses[0].error_code == 0
        broker.stop()
        try:
            while True:
                acknowledged += client.receive().responses[0].partition_responses[0].error_code == 0
        except (CutOff, IndexError):
            pass
    with Broker(data_dir=folder) as broker, RawClient(broker.port) as client:
        assert client.list_offset("orders", -1).offset >= 3 * acknowledged


def test_brokers_live_side_by_side() -> None:
    with Broker({"first": 1}) as first, Broker({"second": 1}) as second, Broker() as third:
        assert len({first.port, second.port, third.port}) == 3
        assert (topics_of(first), topics_of(second), topics_of(third)) == ({"first": 1}, {"second": 1}, {})
        second.stop()
        assert topics_of(first) == {"first": 1}


def test_a_folder_of_ones_own_is_kept_and_opened_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with Broker({"orders": 2}, data_dir=folder) as broker, RawClient(broker.port) as client:
        client.produce("orders", good(), partition=1)
    assert os.path.isdir(folder)
    with Broker({"more": 1}, data_dir=folder) as broker, RawClient(broker.port) as client:
        assert topics_of(broker) == {"orders": 2, "more": 1}
        assert values_of(client.fetch("orders", partition=1)) == [b"value-0", b"value-1", b"value-2"]


def test_the_same_object_can_be_started_again_and_stopped_twice() -> None:
    broker = Broker({"orders": 1})
    with nothing_left_behind():
        for _ in range(3):
            broker.start()
            assert topics_of(broker) == {"orders": 1}
            broker.stop()
            broker.stop()


def test_a_broker_that_does_not_run_says_so_at_once() -> None:
    broker = Broker().start()
    broker.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.create_topics({"late": 1})
    with pytest.raises(RuntimeError, match="does not run"):
        broker.advance(1)


def test_a_port_can_be_chosen() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Broker(port=port) as broker:
        assert broker.port == port


def test_configuration_uses_the_keys_of_kafka() -> None:
    with Broker(config={"num.partitions": "4", "auto.create.topics.enable": "false"}) as broker:
        broker.create_topics({"by-default": -1})
        assert topics_of(broker) == {"by-default": 4}


def test_topics_are_made_with_the_configuration_that_is_given() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        broker.create_topics({"small": 1}, {"max.message.bytes": "70"})
        assert client.produce("small", good()).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_log_goes_where_the_test_wants_it() -> None:
    log = Lines()
    with Broker({"orders": 1}, report=log):
        pass
    assert log.saying("topic orders created")


# ---- failing to start


def test_a_port_that_is_taken() -> None:
    with Broker() as first:
        with nothing_left_behind(), pytest.raises(KafkaError, match=r"cannot listen on .*: Address already in use"):
            Broker(port=first.port).start()
        assert topics_of(first) == {}


def test_a_folder_that_another_broker_has(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as first:
        with nothing_left_behind(), pytest.raises(Exception, match="in use by another broker"):
            Broker(data_dir=str(tmp_path)).start()
        assert topics_of(first) == {"orders": 1}


def test_a_folder_that_belongs_to_another_node(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)):
        pass
    with nothing_left_behind(), pytest.raises(Exception, match="belongs to node 1"):
        Broker(config={"node.id": "7"}, data_dir=str(tmp_path)).start()
    with Broker(data_dir=str(tmp_path)) as broker:
        assert topics_of(broker) == {}, "the failed start let go of the folder"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num.partitons": "3"}, "num.partitions"),  # the nearest key is named
        ({"num.partitions": "three"}, "num.partitions"),
        ({"num.partitions": "-3"}, "num.partitions"),
    ],
)
def test_configuration_that_makes_no_sense(config: dict[str, str], message: str) -> None:
    with nothing_left_behind(), pytest.raises(Exception, match=message):
        Broker(config=config).start()


@pytest.mark.parametrize("topics", [{"no/slashes": 1}, {"orders": 0}, {"fine": 1, "..": 1}])
def test_topics_that_cannot_be_made(topics: dict[str, int]) -> None:
    with nothing_left_behind(), pytest.raises(KafkaError), Broker(topics):
        pytest.fail("it started")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with nothing_left_behind(), pytest.raises(Exception, match="file"):
        Broker(data_dir=str(tmp_path / "file" / "data")).start()


# ---- the plugin

TESTS = """
def test_first(kafka_broker, kafka_topic):
    test_first.topic = kafka_topic
    assert kafka_broker.bootstrap_servers.startswith("127.0.0.1:")

def test_second(kafka_broker, kafka_topic, request):
    assert kafka_topic != test_first.topic
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
    producer.send(kafka_topic, b"hello").get(10)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap_servers, consumer_timeout_ms=10_000)
    consumer.assign([TopicPartition(kafka_topic, 0)])
    consumer.seek_to_beginning()
    assert next(consumer).value == b"hello"
    consumer.close()

def test_with_a_name_that_no_topic_may_have__ünï_cödé(kafka_topic):
    pass

import pytest
@pytest.mark.parametrize("text", ["a/b", "..", "x" * 300])
def test_parametrized(kafka_topic, text):
    assert 0 < len(kafka_topic) <= 249
"""


def test_the_fixtures_work_in_somebody_elses_project(tmp_path: Path) -> None:
    """As installed: found through its entry point, without any configuration."""
    (tmp_path / "test_theirs.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "6 passed" in result.stdout


def test_pytest_starts_no_broker_for_those_who_do_not_ask(tmp_path: Path) -> None:
    code = "import sys, barnabas.pytest_plugin; print('barnabas.broker.server' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "False"
