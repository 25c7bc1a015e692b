"""Clusters for other people's tests, with real clients: what a test can do to nodes, and what clients see of it."""

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing import Broker, Cluster, ClusterNode
from tests.broker.wire import CutOff, RawClient, good, values_of
from tests.broker.witness import Lines
from tests.test_testing import nothing_left_behind

START_S_MAX = 2.5
"""A tenth of it is the promise; a busy machine does not break it."""
WITHIN_S = 60


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary directories of other tests, which run beside these, do not count."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster({"orders": 6}) as cluster:
        yield cluster


@pytest.fixture
def unreplicated() -> Iterator[Cluster]:
    with Cluster({"orders": 6}, config={"default.replication.factor": "1"}) as cluster:
        yield cluster


def others(cluster: Cluster, node_id: int) -> list[ClusterNode]:
    return [node for node in cluster if node.node_id != node_id]


def brokers_known_to(node: ClusterNode) -> set[int]:
    with RawClient(node.port) as client:
        return {broker.node_id for broker in client.call(MetadataRequest(topics=[])).brokers}


def topics_known_to(node: ClusterNode) -> set[str]:
    with RawClient(node.port) as client:
        return {topic.name for topic in client.call(MetadataRequest(topics=None)).topics}


def led_by(cluster: Cluster, node_id: int, topic: str = "orders") -> int:
    """Returns a partition that this node leads."""
    return next(partition for partition in range(6) if cluster.leader(topic, partition) == node_id)


def produce(cluster: Cluster, partition: int) -> int:
    leader = cluster.leader("orders", partition)
    assert leader is not None
    with RawClient(cluster[leader].port) as client:
        return client.produce("orders", good(), partition=partition).error_code


# ---- as a whole


@pytest.mark.parametrize("brokers", [2, 3, 5])
def test_every_broker_knows_every_other_and_the_topics(brokers: int) -> None:
    with Broker({"orders": 1, "payments": 2}, brokers=brokers) as cluster:
        assert isinstance(cluster, Cluster)
        assert [node.node_id for node in cluster] == list(range(1, brokers + 1))
        for node in cluster:
            assert node.is_running
            assert brokers_known_to(node) == set(range(1, brokers + 1))
            assert topics_known_to(node) == {"orders", "payments"}
            assert node.bootstrap_servers == f"127.0.0.1:{node.port}"
        assert cluster.bootstrap_servers == ",".join(node.bootstrap_servers for node in cluster)


@pytest.mark.parametrize("choice", [{"port": 9092}, {"data_dir": "data"}])
def test_a_cluster_chooses_where_it_lies_itself(choice: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"leave out {min(choice)}"):
        Broker(brokers=3, **choice)


def test_one_broker_is_no_cluster() -> None:
    assert type(Broker()) is type(Broker(brokers=1)) is Broker
    with pytest.raises(ValueError, match="0 brokers"):
        Broker(brokers=0)


def test_a_cluster_is_ready_quickly(record_property: Callable[[str, object], None]) -> None:
    with Cluster():
        pass  # imports and codecs are warm from here on
    took_s = []
    for _ in range(5):
        started = time.perf_counter()
        with Cluster():
            took_s.append(time.perf_counter() - started)
    record_property("start_ms", round(min(took_s) * 1_000))
    assert min(took_s) < START_S_MAX


def test_clusters_leave_nothing_behind_whatever_was_done_to_them() -> None:
    with Cluster({"orders": 1}) as cluster:
        cluster.advance(1)
    with nothing_left_behind():
        for _ in range(3):
            with Cluster({"orders": 3}) as cluster:
                assert produce(cluster, 0) == 0
                cluster[1].kill()
                cluster[2].pause()
                cluster.partition({2}, {3})
            cluster.stop()
        cluster.start()
        assert topics_known_to(cluster[1]) == {"orders"}
        cluster.stop()


def test_the_same_configuration_holds_for_all_nodes_and_a_wrong_one_for_none() -> None:
    with Cluster(config={"num.partitions": "4"}) as cluster:
        cluster.create_topics({"by-default": -1})
        assert cluster.leader("by-default", 3) in (1, 2, 3)
    with nothing_left_behind(), pytest.raises(Exception, match=r"num\.partitions"):
        Cluster(config={"num.partitions": "three"}).start()
    with nothing_left_behind(), pytest.raises(KafkaError), Cluster({"no/slashes": 1}):
        pytest.fail("it started")


def test_the_log_says_which_node_speaks() -> None:
    log = Lines()
    with Cluster(report=log) as cluster:
        assert log.saying(f"{cluster.controller}| this node is the controller")


# ---- with clients


def test_records_go_through_all_brokers_with_kafka_python(cluster: Cluster) -> None:
    assert {cluster.leader("orders", partition) for partition in range(6)} == {1, 2, 3}
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    sent = [producer.send("orders", b"%d" % number, partition=number % 6) for number in range(60)]
    for future in sent:
        future.get(WITHIN_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, consumer_timeout_ms=WITHIN_S * 1000)
    consumer.assign([TopicPartition("orders", partition) for partition in range(6)])
    consumer.seek_to_beginning()
    assert sorted(int(next(consumer).value) for _ in range(60)) == list(range(60))
    consumer.close()


def consumed(cluster: Cluster, group: str, count: int) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + WITHIN_S
    found: list[int] = []
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(found)


def test_groups_work_wherever_their_coordinators_are(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(30):
        producer.produce("orders", b"%d" % number, partition=number % 6)
    assert producer.flush(WITHIN_S) == 0
    coordinators = set()
    for group in ("a", "b", "c"):
        assert consumed(cluster, group, 30) == list(range(30))
        with RawClient(cluster[1].port) as client:
            request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
            coordinators.add(client.call(request).coordinators[0].node_id)
    assert len(coordinators) > 1, "a test of one coordinator says little"


# ---- what a test can do to nodes


def test_without_its_controller_a_cluster_has_another_at_once(cluster: Cluster) -> None:
    controller = cluster.controller
    cluster[controller].kill()
    started = time.monotonic()
    cluster.create_topics({"later": 1})
    assert time.monotonic() - started < 5  # as a rule a tenth of a second
    assert cluster.controller != controller
    for node in others(cluster, controller):
        assert "later" in topics_known_to(node)


def test_a_node_that_was_killed_resets_its_connections_and_refuses_new_ones(cluster: Cluster) -> None:
    with RawClient(cluster[2].port) as client:
        client.call(MetadataRequest(topics=[]))
        cluster[2].kill()
        assert not cluster[2].is_running
        with pytest.raises((CutOff, ConnectionResetError, BrokenPipeError)):
            client.call(MetadataRequest(topics=[]))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", cluster[2].port))
    with pytest.raises(RuntimeError, match="node 2 does not run"):
        cluster[2].kill()


def test_a_node_is_killed_and_started_again_and_again_and_keeps_what_it_had(unreplicated: Cluster) -> None:
    cluster = unreplicated
    for node_id in (1, 2, 3, cluster.controller, cluster.controller):
        partition = led_by(cluster, node_id)
        assert produce(cluster, partition) == 0
        port = cluster[node_id].port
        cluster[node_id].kill()
        cluster[node_id].start()
        assert cluster[node_id].port == port
        assert brokers_known_to(cluster[node_id]) == {1, 2, 3}
        with RawClient(port) as client:
            assert b"value-0" in values_of(client.fetch("orders", partition=partition))


def test_a_node_that_stops_cleanly_says_so_and_can_be_started_again(cluster: Cluster) -> None:
    for node in cluster:
        node.stop()
        assert Path(node.data_dir, ".kafka_cleanshutdown").exists()
        node.start()
        assert brokers_known_to(node) == {1, 2, 3}


def test_a_node_that_was_killed_leaves_no_mark_of_a_clean_stop(cluster: Cluster) -> None:
    cluster[3].kill()
    assert not Path(cluster[3].data_dir, ".kafka_cleanshutdown").exists()


def test_a_whole_cluster_dies_and_comes_back(cluster: Cluster) -> None:
    assert produce(cluster, 0) == 0
    for node in cluster:
        node.kill()
    for node in cluster:
        node.start()
    cluster.wait_in_sync()  # before, nobody knows what is committed
    leader = cluster.leader("orders", 0)
    assert leader is not None
    with RawClient(cluster[leader].port) as client:
        assert len(values_of(client.fetch("orders", max_wait_ms=WITHIN_S * 1_000))) == 3


def test_a_node_that_runs_is_not_started_and_one_that_is_paused_not_stopped(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="node 1 runs already"):
        cluster[1].start()
    cluster[1].pause()
    with pytest.raises(RuntimeError, match="node 1 is paused"):
        cluster[1].stop()
    cluster[1].kill()
    cluster[1].start()
    assert cluster[1].is_running
    assert not cluster[1].is_paused


def test_a_node_that_is_paused_answers_when_it_is_resumed(cluster: Cluster) -> None:
    with RawClient(cluster[2].port) as client:
        client.call(MetadataRequest(topics=[]))
        cluster[2].pause()
        assert cluster[2].is_running
        assert cluster[2].is_paused
        client.send(MetadataRequest(topics=[]), 12)
        cluster.create_topics({"meanwhile": 1})  # the others go on
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        client.socket.settimeout(WITHIN_S)
        cluster[2].resume()
        assert {broker.node_id for broker in client.receive().brokers} >= {2}


def active(cluster: Cluster) -> set[int]:
    return {broker.broker_id for broker in cluster._nodes.image.active_brokers}


def test_clients_are_told_no_more_of_a_node_that_died_also_of_the_controller(unreplicated: Cluster) -> None:
    cluster = unreplicated
    dead = cluster.controller
    partition = led_by(cluster, dead)
    cluster[dead].kill()
    cluster._nodes.runtime.wait_until(lambda: dead not in active(cluster), "the dead node was not fenced")
    assert cluster.leader("orders", partition) is None
    cluster[dead].start()
    assert cluster.leader("orders", partition) == dead


def test_a_node_that_is_silent_for_too_long_is_fenced_until_it_is_heard_again(cluster: Cluster) -> None:
    silent = others(cluster, cluster.controller)[0]
    silent.pause()
    cluster.advance(10)
    assert silent.node_id not in active(cluster)
    silent.resume()
    cluster._nodes.runtime.wait_until(lambda: silent.node_id in active(cluster), "it was not heard again")


# ---- the network


def test_a_controller_that_is_cut_off_is_replaced_and_follows_when_the_network_has_healed(cluster: Cluster) -> None:
    before = cluster.controller
    cluster.partition({before})
    cluster.create_topics({"majority": 1})  # takes as long as the others wait for their leader
    after = cluster.controller
    assert after != before
    assert "majority" not in topics_known_to(cluster[before]), "clients reach it, and it knows nothing"
    cluster.heal()
    cluster.create_topics({"all": 1})
    assert {"majority", "all"} <= topics_known_to(cluster[before])


def test_a_cut_that_leaves_no_majority_says_so(cluster: Cluster) -> None:
    cluster.partition({1}, {2}, {3})
    with pytest.raises(RuntimeError, match="no majority"):
        cluster.create_topics({"nobody": 1})
    cluster.heal()
    cluster.create_topics({"everybody": 1})


def test_sides_are_of_nodes_that_exist_each_on_one_of_them(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="no node 4"):
        cluster.partition({1}, {4})
    with pytest.raises(ValueError, match="one side only"):
        cluster.partition({1, 2}, {2, 3})


# ---- leaders and time


def test_a_leader_moves_between_replicas(cluster: Cluster) -> None:
    for node in cluster:
        cluster.move_leader("orders", 0, to=node.node_id)
        assert cluster.leader("orders", 0) == node.node_id
        assert produce(cluster, 0) == 0


def test_a_leader_moves_to_nodes_with_a_replica_only(unreplicated: Cluster) -> None:
    cluster = unreplicated
    leader = cluster.leader("orders", 0)
    assert leader is not None
    cluster.move_leader("orders", 0, to=leader)
    with pytest.raises(ValueError, match=f"only {leader} can lead it"):
        cluster.move_leader("orders", 0, to=leader % 3 + 1)
    for topic, partition in (("orders", 6), ("unknown", 0)):
        with pytest.raises(KafkaError) as caught:
            cluster.leader(topic, partition)
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("seconds", [30, 7 * 24 * 3600])
def test_the_clocks_of_all_nodes_move_and_the_cluster_stays_together(cluster: Cluster, seconds: int) -> None:
    before_ms = cluster._nodes.runtime.call(cluster._nodes.runtime.loops.now_ms)
    controller = cluster.controller
    cluster.advance(seconds)
    assert cluster._nodes.runtime.call(cluster._nodes.runtime.loops.now_ms) - before_ms >= seconds * 1000
    if seconds < 60:
        assert cluster.controller == controller, "nobody thought that others were silent"
    for node in cluster:
        assert brokers_known_to(node) == {1, 2, 3}
    assert produce(cluster, 0) == 0


def test_old_records_go_on_every_node() -> None:
    with Cluster(config={"log.retention.check.interval.ms": "1000"}) as cluster:
        cluster.create_topics({"orders": 6}, {"retention.ms": "3600000", "segment.ms": "3600000"})
        for partition in range(6):
            assert produce(cluster, partition) == 0
        cluster.advance(3 * 3600)
        for partition in range(6):
            leader = cluster.leader("orders", partition)
            assert leader is not None
            with RawClient(cluster[leader].port) as client:
                assert client.list_offset("orders", -2, partition=partition).offset == 3
