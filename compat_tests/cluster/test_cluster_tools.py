"""What Kafka's tools find in the metadata of a cluster, and do to its quorum. What else they say of a cluster is in
test_cluster_tools_compared.py."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from compat_tests.brokers import BROKER, Broker, barnabas_cluster, kafka_cluster
from compat_tests.conftest import Drivers
from compat_tests.harness.driver import Driver
from compat_tests.harness.groups import eventually
from compat_tests.tools.invocation import ask, of
from compat_tests.tools.runs import Side

START = kafka_cluster if BROKER == "kafka" else barnabas_cluster


@pytest.fixture(scope="module")
def tools(drivers: Drivers) -> Driver:
    return drivers["java-4.3"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Starts a cluster whose nodes write a snapshot of the metadata after every change."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    with START(tmp_path_factory.mktemp("metadata"), settings) as cluster:
        yield cluster


def test_the_metadata_of_every_node_are_decoded(cluster: Broker, tools: Driver, tmp_path: Path) -> None:
    (create,) = of("TopicCommand", ask("--create --topic spread --replica-assignment 1,2,3", ""))
    assert not Side(cluster, tools, tmp_path).run(create).is_failure
    for data_dir in cluster.data_dirs:
        folder = data_dir / "__cluster_metadata-0"
        for files in ("*.log", "*.checkpoint"):
            found = partial(is_decoded, tools, folder, files)  # takes seconds where other processes are at work
            eventually(found, f"the topic is in {folder}/{files}", seconds=120)


def is_decoded(tools: Driver, folder: Path, files: str) -> bool:
    return any(decoded(tools, file) for file in sorted(folder.glob(files), reverse=True))


def decoded(tools: Driver, file: Path) -> bool:
    """Says whether Kafka finds the topic and its partitions in the file."""
    arguments = ["--cluster-metadata-decoder", "--files", str(file)]
    told = tools.ask("tool", tool="org.apache.kafka.tools.DumpLogSegments", arguments=arguments)
    types = re.findall(r'"type":"(\w+)"', told["printed"])
    assert "isvalid: false" not in told["printed"]
    return (
        '"type":"TOPIC_RECORD","version":0,"data":{"name":"spread"' in told["printed"]
        and types.count("PARTITION_RECORD") == 3
    )


def test_the_active_controller_leaves_the_quorum_and_comes_back(cluster: Broker, tools: Driver, tmp_path: Path) -> None:
    """Another one leads then; it follows without a vote, until it is added again by what it was configured with."""
    side = Side(cluster, tools, tmp_path)
    status, describe, add = of(
        "MetadataQuorumCommand",
        ask("describe --status", ""),
        ask("describe --replication", ""),
        ask("--command-config {files}/controller.properties add-controller", ""),
    )

    def statuses() -> dict[str, str]:
        """Returns the statuses of those who are caught up: no other is added."""
        return dict(re.findall(r"(?m)^(\d) \S+ \d+ 0 <time> <time> (\w+)$", side.run(describe).printed))

    told = re.search(r"LeaderId: (\d)", side.run(status).printed)
    assert told is not None
    data_dir, port = cluster.data_dirs[int(told[1]) - 1], cluster.ports[int(told[1]) - 1]
    (tmp_path / "controller.properties").write_text(
        f"process.roles=broker,controller\nnode.id={told[1]}\nlog.dirs={data_dir}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 10_000}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:{port + 10_000}\n"
    )
    directory = re.search(r"directory.id=(\S+)", (data_dir / "meta.properties").read_text())
    assert directory is not None
    named = f"--controller-id {told[1]} --controller-directory-id {directory[1]}"
    removed = side.run(*of("MetadataQuorumCommand", ask(f"remove-controller {named}", "")))
    assert not removed.is_failure, removed
    eventually(lambda: statuses().get(told[1]) == "Observer", "it only observes", statuses)
    added = side.run(add)
    assert not added.is_failure, added
    eventually(lambda: statuses().get(told[1]) == "Follower", "it votes again", statuses)
    assert sorted(statuses().values()) == ["Follower", "Follower", "Leader"]
