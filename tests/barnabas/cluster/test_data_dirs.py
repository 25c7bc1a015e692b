"""The directories of a cluster: made once, kept, and never given to a voter again that has lost its own."""

import shutil
from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.broker.system.entropy import Entropy
from barnabas.cluster.data_dirs import Agreement, ClusterDirs
from barnabas.cluster.formatting import Formatter, NodeFormat
from barnabas.cluster.layout import ClusterLayout, Ports
from barnabas.options import Failure
from barnabas.protocol.types import Uuid
from barnabas.replication.quorum.opening import voters_of_snapshot
from tests.fakes import FakeReport

CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
VOTERS = {1: 19092, 2: 19093, 3: 19094}


class Cluster:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.formatter = Formatter(OsFiles(), Entropy(), now_ms=1)
        self.dirs = ClusterDirs(str(path), OsFiles(), self.formatter)
        self.report = FakeReport()

    def start(self, brokers: int, voters: dict[int, int]) -> Agreement:
        agreement = self.dirs.examine(brokers) or self.dirs.agree("", voters)
        clients = {node_id: 9091 + node_id for node_id in range(1, brokers + 1)}
        layout = ClusterLayout({}, str(self.path), brokers, Ports(clients, agreement.ports))
        self.dirs.prepare(layout, agreement, self.report)
        return agreement

    def directory_ids(self, brokers: int) -> list[Uuid]:
        return [self.meta(node_id)[2] for node_id in range(1, brokers + 1)]

    def meta(self, node_id: int) -> tuple[str, int, Uuid]:
        found = self.formatter.read(f"{self.path}/{node_id}")
        assert found is not None
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "data")


def test_a_new_cluster_has_one_id_and_the_same_voters_everywhere(cluster: Cluster) -> None:
    agreement = cluster.start(4, VOTERS)
    assert {cluster.meta(node_id)[0] for node_id in (1, 2, 3, 4)} == {agreement.cluster_id}
    for node_id in (1, 2, 3):
        found = voters_of_snapshot((cluster.path / str(node_id) / CHECKPOINT).read_bytes())
        assert found is not None
        assert [voter.key.directory_id for voter in found.voters] == cluster.directory_ids(3)
        assert {voter.key.node_id: voter.addresses[0].port for voter in found.voters} == VOTERS
    assert not (cluster.path / "4" / CHECKPOINT).exists()  # an observer asks the others


def test_a_later_start_changes_nothing(cluster: Cluster) -> None:
    cluster.start(3, VOTERS)
    before = {path: path.read_bytes() for path in cluster.path.rglob("*") if path.is_file()}
    cluster.start(3, {1: 1, 2: 2, 3: 3})
    assert {path: path.read_bytes() for path in cluster.path.rglob("*") if path.is_file()} == before


def test_a_start_that_was_interrupted_goes_on_with_the_same_voters(cluster: Cluster) -> None:
    agreement = cluster.dirs.agree("", VOTERS)
    cluster.formatter.format(NodeFormat(agreement.cluster_id, 1, agreement.controllers), [f"{cluster.path}/1"])
    assert cluster.start(3, VOTERS) == agreement
    assert cluster.directory_ids(3) == [controller.directory_id for controller in agreement.controllers]


def test_a_voter_that_has_lost_its_directory_is_another_one(cluster: Cluster) -> None:
    cluster.start(3, VOTERS)
    before = cluster.directory_ids(3)
    shutil.rmtree(cluster.path / "2")
    cluster.start(3, VOTERS)
    assert cluster.directory_ids(3)[1] not in before
    assert not (cluster.path / "2" / CHECKPOINT).exists()
    assert cluster.report.having("node 2 begins anew")


def test_a_cluster_grows_by_observers(cluster: Cluster) -> None:
    agreement = cluster.start(2, {1: 19092})
    assert cluster.start(5, VOTERS).controllers == agreement.controllers
    assert cluster.meta(5)[0] == agreement.cluster_id


def test_fewer_brokers_than_there_is_data_of_are_refused(cluster: Cluster) -> None:
    cluster.start(5, VOTERS)
    with pytest.raises(Failure, match="--brokers 3 is too few: there is data of node 4, 5") as refused:
        cluster.dirs.examine(3)
    assert "start with --brokers 5" in refused.value.hint
    assert "barnabas cluster unregister" in refused.value.hint


def test_a_broker_that_was_alone_is_node_1_and_the_only_voter(cluster: Cluster) -> None:
    cluster.formatter.format(NodeFormat("its-own", 1), [f"{cluster.path}/1"])
    alone = cluster.meta(1)
    assert cluster.dirs.is_alone
    agreement = cluster.start(3, {1: 19092})
    assert (agreement.cluster_id, agreement.ports) == ("its-own", {1: 19092})
    assert agreement.controllers[0].directory_id == alone[2]
    assert cluster.meta(1) == alone
    assert {cluster.meta(node_id)[0] for node_id in (2, 3)} == {"its-own"}
    assert not cluster.dirs.is_alone


def test_the_data_of_a_single_broker_is_refused(cluster: Cluster) -> None:
    cluster.formatter.format(NodeFormat("its-own", 1), [str(cluster.path)])
    with pytest.raises(Failure, match="holds the data of a single broker"):
        cluster.dirs.examine(3)


def test_the_directory_of_another_node_is_refused(cluster: Cluster) -> None:
    cluster.start(3, VOTERS)
    shutil.rmtree(cluster.path / "3")
    (cluster.path / "2").rename(cluster.path / "3")
    with pytest.raises(Failure, match="3 belongs to node 2"):
        cluster.start(3, VOTERS)


def test_a_file_that_cannot_be_read_is_refused(cluster: Cluster) -> None:
    cluster.path.mkdir()
    (cluster.path / "cluster.properties").write_text("version=1\n")
    with pytest.raises(Failure, match=r"cluster\.properties cannot be read"):
        cluster.dirs.examine(3)
