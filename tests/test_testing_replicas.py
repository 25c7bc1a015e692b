"""Replicas in a cluster for tests: what is acknowledged survives whatever a test does to one node of three."""

import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.broker.system.entropy import Entropy
from barnabas.cluster.formatting import Formatter, NodeFormat
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Cluster
from barnabas.testing.files import UnsyncedFiles
from tests.broker.wire import RawClient, good, values_of
from tests.replication.clusters import new_topic

WITHIN_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster({"orders": 3}) as cluster:
        cluster.wait_in_sync()
        yield cluster


def leader_of(cluster: Cluster, partition: int = 0) -> int:
    leader = cluster.leader("orders", partition)
    assert leader is not None
    return leader


def another_than(node_id: int) -> int:
    return node_id % 3 + 1


def produce(cluster: Cluster, node_id: int, *, acks: int = -1, timeout_ms: int = 30_000) -> int:
    with RawClient(cluster[node_id].port) as client:
        return client.produce("orders", good(), acks=acks, timeout_ms=timeout_ms).error_code


class Producing:
    """An idempotent producer with acks=all that does not stop; it remembers what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._more = threading.Event()
        self._stop = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce("orders", b"%d" % number, partition=0, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.002)
        assert self._producer.flush(WITHIN_S) == 0

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged.append(int(message.value()))  # type: ignore[attr-defined]
            self._more.set()

    def wait_for_more(self) -> None:
        """Returns when a record is acknowledged from now on."""
        self._more.clear()
        assert self._more.wait(WITHIN_S), "nothing was acknowledged"

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(WITHIN_S)


def stored(cluster: Cluster, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[int] = []
    while len(found) < count:
        messages = consumer.consume(min(1000, count - len(found)), WITHIN_S)
        assert messages, f"{len(found)} of {count} records were there"
        found += [int(message.value()) for message in messages]
    consumer.close()
    return found


# ---- who leads


def test_a_leader_moves_to_any_replica_in_sync(cluster: Cluster) -> None:
    for _ in range(3):
        to = another_than(leader_of(cluster))
        cluster.move_leader("orders", 0, to=to)
        assert leader_of(cluster) == to
        assert produce(cluster, to) == ErrorCode.NONE
        cluster.move_leader("orders", 0, to=to)  # it leads already


def test_a_leader_moves_to_nobody_else(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="node 7 has no replica of orders-0: only"):
        cluster.move_leader("orders", 0, to=7)
    dead = another_than(leader_of(cluster))
    cluster[dead].kill()
    nodes = cluster._nodes
    nodes.runtime.wait_until(lambda: dead not in nodes.partition("orders", 0).isr, "it stayed in sync")
    with pytest.raises(RuntimeError, match=f"node {dead} cannot lead orders-0 now"):
        cluster.move_leader("orders", 0, to=dead)


# ---- who is in sync


def test_a_wait_for_replicas_that_cannot_come_names_the_partitions(cluster: Cluster) -> None:
    dead = another_than(leader_of(cluster))
    cluster[dead].kill()
    with pytest.raises(TimeoutError, match=rf"within 0.2 s: orders-0 \(without {dead}\), orders-1"):
        cluster.wait_in_sync(timeout=0.2)
    cluster[dead].start()
    cluster.wait_in_sync()


# ---- what is acknowledged


def test_a_leader_is_killed_and_producing_goes_on_and_nothing_is_lost(cluster: Cluster) -> None:
    producing = Producing(cluster)
    for _ in range(2):
        producing.wait_for_more()
        killed = leader_of(cluster)
        cluster[killed].kill()
        producing.wait_for_more()
        cluster[killed].start()
        cluster.wait_in_sync()
    producing.finish()
    assert producing.errors == []
    assert stored(cluster, len(producing.acknowledged)) == sorted(producing.acknowledged)


def test_a_follower_that_is_paused_holds_up_nobody_for_longer_than_its_session(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    follower = next(node for node in cluster if node.node_id not in (leader, cluster.controller))
    follower.pause()
    assert produce(cluster, leader, acks=1) == ErrorCode.NONE
    cluster.advance(10)
    assert produce(cluster, leader_of(cluster)) == ErrorCode.NONE
    follower.resume()
    cluster.wait_in_sync()


def test_a_leader_that_is_cut_off_acknowledges_nothing_and_loses_what_it_had_alone(cluster: Cluster) -> None:
    cut_off = leader_of(cluster)
    cluster.partition({cut_off}, {1, 2, 3} - {cut_off})
    late = produce(cluster, cut_off, timeout_ms=200)
    assert late in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    cluster.advance(20)  # a controller is elected, if it was that as well, and its session ends; two others go on
    leader = leader_of(cluster)
    assert leader != cut_off
    assert produce(cluster, leader) == ErrorCode.NONE
    cluster.heal()
    cluster.wait_in_sync()
    cluster.move_leader("orders", 0, to=cut_off)
    with RawClient(cluster[cut_off].port) as client:
        assert len(values_of(client.fetch("orders"))) == 3, "what only it had was never acknowledged"


def test_a_partition_is_refused_and_waited_for_while_all_that_were_in_sync_are_dead() -> None:
    """The replica that is alive is behind: if it led, what was acknowledged would be lost."""
    behind, last = 4, 5  # which have no vote
    with Cluster(brokers=5) as cluster, ThreadPoolExecutor() as threads:
        create_on(cluster, [behind, last])
        producing = Producing(cluster)
        producing.wait_for_more()
        cluster[behind].kill()
        wait_for_isr(cluster, {last})
        producing.wait_for_more()
        cluster[last].kill()
        nodes = cluster._nodes
        nodes.runtime.wait_until(lambda: nodes.partition("orders", 0).leader == -1, "somebody leads")
        cluster[behind].start()
        assert leader_in_metadata(cluster[behind].port) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        for node in (cluster[1], cluster[behind]):
            assert produce(cluster, node.node_id) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            with RawClient(node.port) as client:  # of a version in which followers could not be read from
                assert client.fetch("orders", version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with RawClient(cluster[behind].port) as client:
            known = [int(value or b"") for value in values_of(client.fetch("orders"))]
        assert known == producing.acknowledged[: len(known)], "what it knows to be committed, and no more"
        reading = threads.submit(stored, cluster, len(producing.acknowledged))
        cluster[last].start()
        producing.wait_for_more()
        producing.finish()
        assert producing.errors == []
        assert reading.result(WITHIN_S) == producing.acknowledged[: len(reading.result())]
        assert stored(cluster, len(producing.acknowledged)) == producing.acknowledged
        wait_for_isr(cluster, {behind, last})


def create_on(cluster: Cluster, replicas: list[int]) -> None:
    topic = new_topic("orders", -1, -1, {0: replicas}, {"min.insync.replicas": "1"})
    with RawClient(cluster.port) as client:
        assert client.call(CreateTopicsRequest(topics=[topic])).topics[0].error_code == ErrorCode.NONE


def wait_for_isr(cluster: Cluster, isr: set[int]) -> None:
    nodes = cluster._nodes
    nodes.runtime.wait_until(lambda: {*nodes.partition("orders", 0).isr} == isr, f"{isr} are not those in sync")


def leader_in_metadata(port: int) -> tuple[int, int]:
    with RawClient(port) as client:
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    (partition,) = answer.topics[0].partitions
    return partition.error_code, partition.leader_id


def test_a_broker_whose_disk_was_replaced_copies_everything_again() -> None:
    with Cluster({"orders": 3}, brokers=4) as cluster:
        cluster.wait_in_sync()
        for partition in range(3):
            with RawClient(cluster[leader_of(cluster, partition)].port) as client:
                assert client.produce("orders", good(), partition=partition).error_code == ErrorCode.NONE
        replaced = cluster[4]  # it has no vote
        partition = next(index for index in range(3) if 4 in cluster._nodes.partition("orders", index).replicas)
        properties = Path(replaced.data_dir, "meta.properties").read_text()
        (cluster_id,) = re.findall("^cluster.id=(.*)$", properties, re.MULTILINE)
        replaced.stop()
        shutil.rmtree(replaced.data_dir)
        formatter = Formatter(UnsyncedFiles(), Entropy(), now_ms=0)
        formatter.format(NodeFormat(cluster_id, 4, ()), [replaced.data_dir])
        replaced.start()
        cluster.wait_in_sync()
        cluster.move_leader("orders", partition, to=4)
        with RawClient(replaced.port) as client:
            assert len(values_of(client.fetch("orders", partition=partition))) == 3


def test_the_leader_after_a_kill_is_one_that_runs(cluster: Cluster) -> None:
    for partition in range(3):
        killed = cluster.leader("orders", partition)
        assert killed is not None
        cluster[killed].kill()
        assert cluster.leader("orders", partition) not in (None, killed)
        cluster[killed].start()
        cluster.wait_in_sync()


def test_a_leader_that_is_gone_without_a_majority_stays_the_last_that_is_known(cluster: Cluster) -> None:
    for node_id in (2, 3):
        cluster[node_id].kill()
    assert {cluster.leader("orders", partition) for partition in range(3)} <= {1, 2, 3}
