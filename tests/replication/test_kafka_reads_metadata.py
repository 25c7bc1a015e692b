"""Kafka's own tool reads the metadata log and its snapshots, and finds nothing to complain about."""

import json
import re

import pytest

from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.replication.snapshots import list_snapshots
from barnabas.storage.files import OsFiles
from tests.kafka_jars import run_java
from tests.replication.clusters import controller, new_topic, registration
from tests.replication.seams import Quorum


def dumped(path):
    text = run_java("DumpMetadata.java", path)
    complaints = re.findall("(?im)^.*(?:exception|error|mismatch|isvalid: false|corrupt|garbage).*$", text)
    assert complaints == []
    return text


def records(text):
    return [json.loads(line.partition("payload: ")[2]) for line in text.splitlines() if "payload: " in line]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory):
    quorum = Quorum(OsFiles(), str(tmp_path_factory.mktemp("data"))).lead()
    decider = controller()
    topics = [
        new_topic("orders", -1, -1, {0: [1], 1: [1]}, {"retention.ms": "5"}),
        new_topic("__consumer_offsets", 50),
    ]
    for decide in (
        lambda image: decider.register_and_unfence(registration(1, rack="a"), image),
        lambda image: decider.create_topics(CreateTopicsRequest(topics=topics), image),
        lambda image: decider.allocate_producer_ids(1, image.brokers[1].broker_epoch, image),
    ):
        quorum.metadata.decide(decide, lambda response, error: None)
    quorum.run()
    return quorum


def test_kafka_reads_the_log(quorum):
    text = dumped(f"{quorum.log.path}/00000000000000000000.log")
    assert all(name in text for name in ("LeaderChange", "KRaftVersion", "KRaftVoters"))
    found = records(text)
    assert [record["type"] for record in found[:5]] == [
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
    ]
    assert found[0]["data"] == {"name": "metadata.version", "featureLevel": 30}
    assert found[1]["data"] == {"name": "group.version", "featureLevel": 1}
    assert found[5]["data"] == {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "5"}
    assert (found[6]["version"], found[6]["data"]["leader"], found[6]["data"]["isr"]) == (2, 1, [1])
    assert found[-1]["type"] == "PRODUCER_IDS_RECORD"
    assert len(found) == quorum.metadata.image.end_offset - 3  # all but the leader's three


def test_kafka_reads_a_snapshot(quorum):
    quorum.metadata.take_snapshot()
    quorum.run()
    (snapshot_id,) = list_snapshots(quorum.files, quorum.log.path)
    text = dumped(f"{quorum.log.path}/{snapshot_id.file_name}")
    assert f"Snapshot end offset: {snapshot_id.end_offset}, epoch: 1" in text
    assert all(name in text for name in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"))
    types = [record["type"] for record in records(text)]
    assert types[0] == "FEATURE_LEVEL_RECORD"
    assert {name: types.count(name) for name in set(types)} == {
        "FEATURE_LEVEL_RECORD": 2,
        "REGISTER_BROKER_RECORD": 1,
        "TOPIC_RECORD": 2,
        "PARTITION_RECORD": 52,
        "CONFIG_RECORD": 1,
        "PRODUCER_IDS_RECORD": 1,
    }
