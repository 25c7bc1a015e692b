"""`barnabas cluster status`: what a cluster answers, as people and as programs read it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.cluster import Cluster as Described
from barnabas.client.cluster import Partition, Topic
from barnabas.client.cluster_status import ClusterStatus, cluster_status
from barnabas.client.connection import parse_addresses
from barnabas.commands.cluster import status as command
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    Listener,
    Node,
    ReplicaState,
)
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.types import ZERO_UUID, TopicPartition
from barnabas.testing import Cluster
from tests.barnabas.processes import TIMEOUT_S, broker, environment, run


def partition(index: int, leader_id: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2)) -> Partition:
    return Partition(index, leader_id, 0, replicas, isr, (), ErrorCode.NONE)


ELIGIBLE = DescribeTopicPartitionsResponseTopic(
    error_code=0,
    name="orders",
    topic_id=ZERO_UUID,
    partitions=[
        DescribeTopicPartitionsResponsePartition(
            error_code=0, partition_index=1, leader_id=-1, replica_nodes=(1, 2), isr_nodes=(), offline_replicas=(2,),
            eligible_leader_replicas=(2,), last_known_elr=(),
        )
    ],
)  # fmt: skip
TWO_NEEDED = DescribeConfigsResult(
    error_code=0,
    error_message=None,
    resource_type=2,
    resource_name="orders",
    configs=[
        DescribeConfigsResourceResult(
            name="min.insync.replicas", value="2", read_only=False, config_source=5, is_sensitive=False, synonyms=()
        )
    ],
)
ENDS = ListOffsetsResponse(
    topics=[
        ListOffsetsTopicResponse(
            name="orders",
            partitions=[ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=70, timestamp=-1)],
        )
    ]
)


def log_dir(path: str, error_code: int = 0) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=error_code, log_dir=path, topics=())


class Answers:
    """A client of a cluster in which node 2 is fenced and node 4 is a controller only."""

    def __init__(self, *, quorum_error: int = 0) -> None:
        self._quorum_error = quorum_error

    def metadata(self) -> Described:
        partitions = (partition(0, 1, (1,)), partition(1, -1, ()), partition(2, 1, (1, 2)))
        topics = {"orders": Topic("orders", ZERO_UUID, False, partitions)}
        return Described("its-id", 1, {1: Address("h", 9092)}, topics, {})

    timeout_s = 1.0

    def any_node(self) -> "Answers":
        return self

    def node(self, node_id: int) -> "Answers":
        assert node_id == 1, "only those that the metadata name are asked"
        return self

    def request(self, request: Any, _response: type) -> Any:
        if isinstance(request, DescribeClusterRequest):
            return self._cluster()
        if isinstance(request, DescribeTopicPartitionsRequest):
            return DescribeTopicPartitionsResponse(topics=[ELIGIBLE])
        if isinstance(request, DescribeLogDirsRequest):
            assert request.topics == [], "nobody has to measure logs for this"
            return DescribeLogDirsResponse(results=[log_dir("/good"), log_dir("/bad", ErrorCode.KAFKA_STORAGE_ERROR)])
        if isinstance(request, DescribeConfigsRequest):
            return DescribeConfigsResponse(results=[TWO_NEEDED])
        return ENDS if isinstance(request, ListOffsetsRequest) else self._quorum(request)

    def _cluster(self) -> DescribeClusterResponse:
        brokers = [
            DescribeClusterBroker(broker_id=1, host="h", port=9092, rack="a"),
            DescribeClusterBroker(broker_id=2, host="h", port=9093, is_fenced=True),
        ]
        return DescribeClusterResponse(error_code=0, cluster_id="its-id", controller_id=2, brokers=brokers)

    def _quorum(self, request: Any) -> DescribeQuorumResponse:
        assert isinstance(request, DescribeQuorumRequest)
        replicas = [
            ReplicaState(replica_id=node_id, log_end_offset=end) for node_id, end in ((4, 90), (1, 100), (2, -1))
        ]
        described = DescribeQuorumPartitionResponse(
            partition_index=0,
            error_code=self._quorum_error,
            leader_id=1,
            leader_epoch=7,
            high_watermark=99,
            current_voters=replicas[:2],
            observers=replicas[2:],
        )
        topic = DescribeQuorumTopicResponse(topic_name="__cluster_metadata", partitions=[described])
        nodes = [Node(node_id=4, listeners=[Listener(name="CONTROLLER", host="c", port=19095)])]
        return DescribeQuorumResponse(error_code=0, topics=[topic], nodes=nodes)


def test_what_a_cluster_answers_is_put_together() -> None:
    found = cluster_status(Answers())  # type: ignore[arg-type]
    assert (found.cluster_id, found.controller_id, found.partitions) == ("its-id", 1, 3)
    assert [(node.node_id, node.roles, node.is_fenced, node.leads, node.replicas) for node in found.nodes] == [
        (1, ("broker", "controller"), False, 2, 3),
        (2, ("broker",), True, 0, 3),
        (4, ("controller",), False, 0, 0),
    ]
    assert found.quorum is not None
    assert [(each.node_id, each.lag) for each in found.quorum.voters] == [(1, 0), (4, 10)]
    assert [(each.node_id, each.lag) for each in found.quorum.observers] == [(2, 100)]  # it never fetched
    assert found.leaderless == [TopicPartition("orders", 1)]
    assert found.under_replicated == [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def test_a_quorum_that_does_not_answer_hides_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    found = cluster_status(Answers(quorum_error=ErrorCode.NOT_LEADER_OR_FOLLOWER))  # type: ignore[arg-type]
    assert found.quorum is None
    assert found.controller_id == 2
    assert any("not known" in line and "NOT_LEADER_OR_FOLLOWER" in line for line in command._lines(found))


def test_text_for_people() -> None:
    found = cluster_status(Answers())  # type: ignore[arg-type]
    assert list(command._lines(found)) == [
        "cluster its-id  (2 brokers, controller 1)",
        "NODE  ADDRESS  RACK  ROLES              STATE   LEADS  REPLICAS  LAG",
        "   1  h:9092   a     broker,controller  active      2         3    0",
        "   2  h:9093   -     broker             fenced      0         3    -",
        "   4  c:19095  -     controller         -           0         0    -",
        "",
        "quorum: leader 1, epoch 7, high watermark 99",
        "NODE  ROLE      END  LAG  CAUGHT UP",
        "   1  voter     100    0  leads",
        "   4  voter      90   10  never",
        "   2  observer   -1  100  never",
        "",
        "3 partitions, 1 without a leader: orders-1, 2 not fully in sync: orders-0, orders-1, "
        "2 below min.insync.replicas: orders-0, orders-1",
        "",
        "broker 1: log dir /bad has failed; its replicas there are offline: repair or replace the disk, then "
        "restart it",
        "",
        "PARTITION  LEADER  REPLICAS  IN SYNC  NEEDED  ELIGIBLE  OFFLINE  LAG",
        "orders-0        1  1,2             1       2         -        -  2: unknown",
        "orders-1        -  1,2             -       2         2        -  1: unknown  2: unknown",
    ]


def test_an_error_of_the_cluster_is_the_commands() -> None:
    class Refuses(Answers):
        def _cluster(self) -> DescribeClusterResponse:
            return DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, cluster_id="", brokers=())

    with pytest.raises(KafkaError):
        cluster_status(Refuses())  # type: ignore[arg-type]


def test_a_broker_tells_its_state_once_and_again() -> None:
    with broker("--port", "0", "--ephemeral") as running:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
        run("topics", "create", "orders", "--partitions", "3", env=env)
        found = json.loads(run("cluster", "status", "--json", env=env).stdout)
        (node,) = found["nodes"]
        assert (node["node_id"], node["address"], node["is_fenced"]) == (1, running.bootstrap_servers, False)
        assert (node["leads"], found["num_partitions"], found["leaderless"]) == (3, 3, [])
        assert b"3 partitions, none without a leader" in run("cluster", "status", env=env).stdout
        words = [sys.executable, "-m", "barnabas", "cluster", "status", "--watch", "0.1", "--json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as watching:
            assert watching.stdout is not None
            seen = [json.loads(watching.stdout.readline()) for _ in range(3)]
            watching.terminate()
            watching.wait(TIMEOUT_S)
    assert all(each["cluster"]["cluster_id"] == found["cluster_id"] for each in seen)


def test_a_replica_that_is_away_is_shown_and_then_how_far_it_is_behind() -> None:
    with Cluster({"orders": 1}) as cluster:
        cluster.wait_in_sync()
        leader = cluster.leader("orders", 0)
        away = next(node for node in cluster if node.node_id not in (leader, cluster.controller))
        away.kill()
        client = Client(parse_addresses(cluster.bootstrap_servers))
        found = client.retry(lambda: _troubled(client))
        (trouble,) = found.troubles
        assert (trouble.name, trouble.partition.offline_replicas) == (TopicPartition("orders", 0), (away.node_id,))
        assert (found.under_replicated, found.under_min_isr) == ([trouble.name], [])
        assert trouble.lags[away.node_id] is None
        away.start()
        cluster.wait_in_sync()
        assert cluster_status(client).troubles == []
        client.close()


def _troubled(client: Client) -> ClusterStatus:
    found = cluster_status(client)
    if not found.troubles:
        raise KafkaError("not fenced so far", ErrorCode.LEADER_NOT_AVAILABLE)
    return found
