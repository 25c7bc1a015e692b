"""Leaders and replicas are moved with `barnabas cluster`, on a cluster of real brokers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.__main__ import main
from barnabas.protocol.errors import ErrorCode
from barnabas.testing import Cluster
from tests.barnabas.groups.cluster import Done
from tests.broker.wire import RawClient, good

WITHIN_S = 60
RECORDS = 300

Barnabas = Callable[[str], Done]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Four brokers, and six partitions with three replicas and some records each."""
    with Cluster({"orders": 6}, brokers=4) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("orders", b"%d" % number, partition=number % 6)
        assert producer.flush(WITHIN_S) == 0
        cluster.wait_in_sync()
        yield cluster


@pytest.fixture
def barnabas(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Barnabas:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)

    def command(line: str) -> Done:
        status = main(line.split())
        return Done(status, *capsys.readouterr())

    return command


def replicas_of(cluster: Cluster) -> dict[int, tuple[int, ...]]:
    return {index: tuple(cluster._nodes.partition("orders", index).replicas) for index in range(6)}


def another_replica(cluster: Cluster, partition: int) -> int:
    leader = cluster.leader("orders", partition)
    return next(each for each in replicas_of(cluster)[partition] if each != leader)


def written(path: Path, replicas: dict[int, tuple[int, ...]]) -> Path:
    partitions = [
        {"topic": "orders", "partition": index, "replicas": each, "log_dirs": ["/somewhere"] * len(each)}
        for index, each in replicas.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def all_records(cluster: Cluster) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody"})
    consumer.assign([TopicPartition("orders", index, 0) for index in range(6)])
    found: list[int] = []
    while len(found) < RECORDS:
        messages = consumer.consume(RECORDS - len(found), WITHIN_S)
        assert messages, f"{len(found)} records were there"
        found += [int(message.value()) for message in messages]
    consumer.close()
    return sorted(found)


def configs_of(barnabas: Barnabas, what: str) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in barnabas(f"configs describe {what} --json").json}


# ---- leaders


def test_a_leader_is_moved_and_stays_when_the_preferred_are_elected(cluster: Cluster, barnabas: Barnabas) -> None:
    to = another_replica(cluster, 0)
    assert barnabas(f"cluster move-leader orders:0={to}").out == f"broker {to} leads orders-0\n"
    assert cluster.leader("orders", 0) == to
    assert barnabas("cluster elect").status == 0
    assert barnabas("cluster elect orders:0,1 --json").status == 0
    assert cluster.leader("orders", 0) == to
    with RawClient(cluster[to].port) as client:
        assert client.produce("orders", good()).error_code == ErrorCode.NONE


def test_what_cannot_lead_is_refused_before_anything_has_changed(cluster: Cluster, barnabas: Barnabas) -> None:
    before = replicas_of(cluster)
    (stranger,) = {1, 2, 3, 4} - {*before[0]}
    to = another_replica(cluster, 1)
    for line, complaint in (
        (f"orders:1={to} orders:0={stranger}", f"broker {stranger} has no replica of orders-0"),
        (f"orders:1={to} orders:9=1", "there is no partition orders-9"),
        ("unknown:0=1", "topic unknown does not exist"),
    ):
        done = barnabas(f"cluster move-leader {line}")
        assert done.status == 1
        assert complaint in done.err
    assert replicas_of(cluster) == before


def test_leaders_are_drained_off_a_broker_which_then_leads_nothing(cluster: Cluster, barnabas: Barnabas) -> None:
    before = replicas_of(cluster)
    done = barnabas("cluster drain 2 --leaders-only")
    assert (done.status, "broker 2 leads nothing any more" in done.out) == (0, True)
    assert 2 not in {cluster.leader("orders", index) for index in range(6)}
    assert {index: {*each} for index, each in replicas_of(cluster).items()} == {
        index: {*each} for index, each in before.items()
    }
    assert barnabas("cluster drain 2 --leaders-only --json").json == {"broker": 2, "moved": [], "left": []}


def test_what_nobody_else_can_lead_is_named(cluster: Cluster, barnabas: Barnabas) -> None:
    assert barnabas("topics create alone -r 1").status == 0
    leader = cluster.leader("alone", 0)
    done = barnabas(f"cluster drain {leader} --leaders-only")
    assert done.status == 1
    assert "no other replica is in sync with: alone-0" in done.err


# ---- a broker that is to go


def test_a_broker_is_drained_and_nothing_is_lost(cluster: Cluster, barnabas: Barnabas) -> None:
    done = barnabas("cluster drain 4")
    assert (done.status, "broker 4 has no replica any more" in done.out) == (0, True), done
    assert all({*replicas} == {1, 2, 3} for replicas in replicas_of(cluster).values())
    assert "partitions moved" in done.err
    assert barnabas("cluster drain 4 --json").json == {"broker": 4, "moved": [], "left": []}
    cluster[4].stop()
    assert barnabas("cluster unregister 4").status == 0
    assert all_records(cluster) == list(range(RECORDS))
    refused = barnabas("cluster drain 3")
    assert (refused.status, "start another broker" in refused.err) == (1, True)
    assert "there is no broker 4" in barnabas("cluster drain 4").err


def test_a_broker_that_is_dead_is_drained_too(cluster: Cluster, barnabas: Barnabas) -> None:
    cluster[4].kill()
    nodes = cluster._nodes
    nodes.runtime.wait_until(lambda: 4 not in {each.broker_id for each in nodes.image.active_brokers}, "not fenced")
    assert barnabas("cluster drain 4").status == 0
    cluster.wait_in_sync()
    assert all_records(cluster) == list(range(RECORDS))


# ---- plans


def test_a_plan_is_executed_with_a_limit_and_verified(cluster: Cluster, barnabas: Barnabas, tmp_path: Path) -> None:
    crowded = written(tmp_path / "crowded.json", dict.fromkeys(range(6), (1, 2, 3)))
    before = barnabas(f"cluster reassign execute {crowded} --wait --throttle 100000000")
    assert before.status == 0, before.err
    assert "throttled" not in str(configs_of(barnabas, "--topic orders"))
    planned = barnabas("cluster reassign plan")
    assert "replicas to copy" in planned.err
    plan = tmp_path / "plan.json"
    plan.write_text(planned.out)
    assert barnabas(f"cluster reassign execute {plan} --throttle 100000000").status == 0
    limits = configs_of(barnabas, "--topic orders")
    assert limits["follower.replication.throttled.replicas"].endswith(":4")
    assert limits["leader.replication.throttled.replicas"].startswith("0:1,0:2,0:3")
    assert configs_of(barnabas, "--broker 1")["leader.replication.throttled.rate"] == "100000000"
    verified = barnabas(f"cluster reassign verify {plan} --wait --json")
    assert {row["state"] for row in verified.json} == {"done"}
    assert "throttled" not in str(configs_of(barnabas, "--topic orders"))
    assert "throttled" not in str(configs_of(barnabas, "--broker 1"))
    assert "nothing to do" in barnabas("cluster reassign plan").err
    assert barnabas(f"cluster reassign verify {crowded}").status == 1, "they are elsewhere"
    assert all_records(cluster) == list(range(RECORDS))


def test_a_move_that_cannot_end_is_shown_and_cancelled(cluster: Cluster, barnabas: Barnabas, tmp_path: Path) -> None:
    before = replicas_of(cluster)
    index = next(index for index, replicas in before.items() if 4 not in replicas)
    plan = written(tmp_path / "plan.json", {index: (4, *before[index][1:])})
    cluster[4].kill()
    assert barnabas(f"cluster reassign execute {plan} --throttle 1000").status == 0
    again = barnabas(f"cluster reassign execute {plan}")
    assert (again.status, f"being reassigned already: orders-{index}" in again.err) == (1, True)
    shown = barnabas(f"cluster reassign verify {plan}")
    assert (shown.status, "moving" in shown.out) == (1, True)
    late = barnabas(f"cluster reassign verify {plan} --wait --within 1")
    assert (late.status, f"left: orders-{index}" in late.err) == (1, True)
    assert barnabas(f"cluster reassign cancel {plan}").out == f"cancelled: orders-{index}\n"
    assert "throttled" not in str(configs_of(barnabas, "--topic orders"))
    assert barnabas("cluster reassign cancel --all").out == "nothing was under way\n"
    assert {*replicas_of(cluster)[index]} == {*before[index]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "no JSON"),
        ("[]", "must have topic, partition and replicas"),
        ('{"version": 2, "partitions": []}', "version 2"),
        ('{"partitions": []}', "it names no partition"),
        ('{"partitions": [{"topic": "orders", "partition": 0}]}', "must have topic, partition and replicas"),
        ('{"partitions": [{"topic": "orders", "partition": 0, "replicas": []}]}', "orders-0 has no replica"),
        ('{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 1]}]}', "orders-0 has a replica twice"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_in_one_line(
    content: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    assert main(["cluster", "reassign", "execute", str(path)]) == 1
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


def test_a_plan_for_brokers_or_partitions_that_are_not_there_is_refused(
    cluster: Cluster, barnabas: Barnabas, tmp_path: Path
) -> None:
    assert "there is no broker 7" in barnabas(f"cluster reassign execute {written(tmp_path / 'a', {0: (1, 7)})}").err
    assert "no partition orders-9" in barnabas(f"cluster reassign execute {written(tmp_path / 'b', {9: (1, 2)})}").err
    assert "there is no broker 7" in barnabas("cluster reassign plan --brokers 1,7").err
