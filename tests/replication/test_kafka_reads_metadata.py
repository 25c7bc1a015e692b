"""Kafka's own tool reads the metadata log and its snapshots, and finds nothing to complain about."""

import json
import re
from typing import Any

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.replication.metadata.snapshots import list_snapshots
from tests.kafka_jars import run_java
from tests.replication.clusters import new_topic, registration
from tests.replication.quorums import Quorum, check_kept


def dumped(path: str) -> str:
    text = run_java("DumpMetadata.java", path)
    complaints = re.findall("(?im)^.*(?:exception|error|mismatch|isvalid: false|corrupt|garbage).*$", text)
    assert complaints == []
    return text


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.partition("payload: ")[2]) for line in text.splitlines() if "payload: " in line]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Quorum:
    quorum = Quorum(OsFiles(), str(tmp_path_factory.mktemp("data"))).lead()
    topics = [
        new_topic("orders", -1, -1, {0: [1], 1: [1]}, {"retention.ms": "5"}),
        new_topic("__consumer_offsets", 50),
    ]
    for request in (
        registration(1, rack="a"),
        BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=8, current_metadata_offset=8, want_fence=False, want_shut_down=False
        ),
        CreateTopicsRequest(topics=topics),
        AllocateProducerIdsRequest(broker_id=1, broker_epoch=8),
    ):
        answer = quorum.submit(request)
        quorum.run()
        check_kept(answer)
    quorum.run()
    return quorum


def test_kafka_reads_the_log(quorum: Quorum) -> None:
    text = dumped(f"{quorum.log.path}/00000000000000000000.log")
    assert all(name in text for name in ("LeaderChange", "KRaftVersion", "KRaftVoters"))
    found = records(text)
    assert [record["type"] for record in found[:8]] == [
        *["FEATURE_LEVEL_RECORD"] * 4,
        "CONFIG_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
    ]
    assert found[0]["data"] == {"name": "metadata.version", "featureLevel": 30}
    assert found[1]["data"] == {"name": "eligible.leader.replicas.version", "featureLevel": 1}
    assert found[2]["data"] == {"name": "group.version", "featureLevel": 1}
    assert found[3]["data"] == {"name": "transaction.version", "featureLevel": 2}
    assert found[4]["data"] == {"resourceType": 4, "resourceName": "", "name": "min.insync.replicas", "value": "1"}
    assert found[8]["data"] == {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "5"}
    assert (found[9]["version"], found[9]["data"]["leader"], found[9]["data"]["isr"]) == (2, 1, [1])
    assert found[-1]["type"] == "PRODUCER_IDS_RECORD"
    assert len(found) == quorum.image.end_offset - 3  # all but the leader's three


def test_kafka_reads_a_snapshot(quorum: Quorum) -> None:
    quorum.controller.snapshotter.take()
    quorum.run()
    (snapshot_id,) = list_snapshots(quorum.files, quorum.log.path)
    text = dumped(f"{quorum.log.path}/{snapshot_id.file_name}")
    assert f"Snapshot end offset: {snapshot_id.end_offset}, epoch: 1" in text
    assert all(name in text for name in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"))
    types = [record["type"] for record in records(text)]
    assert types[0] == "FEATURE_LEVEL_RECORD"
    assert {name: types.count(name) for name in set(types)} == {
        "FEATURE_LEVEL_RECORD": 4,
        "REGISTER_BROKER_RECORD": 1,
        "TOPIC_RECORD": 2,
        "PARTITION_RECORD": 52,
        "CONFIG_RECORD": 2,
        "PRODUCER_IDS_RECORD": 1,
    }
