"""A broker with two log dirs that loses one of them, and what it serves before and after its next start."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.node import Node
from barnabas.broker.server import StopFailed
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.types import TopicPartition
from barnabas.replication.controller.partitions.directories import directory_of
from barnabas.replication.metadata.image import MetadataImage
from barnabas.testing import Broker
from barnabas.testing.calls import call_and_wait
from tests.broker.wire import RawClient, good
from tests.fakes import FakeReport

DIRS = ("one", "two")


ORDERS = {"orders": 2}
"""A partition in each of the two."""


def broker_in(folder: Path, topics: dict[str, int] | None = None, report: FakeReport | None = None) -> Broker:
    config = {"log.dirs": ",".join(str(folder / name) for name in DIRS)}
    return Broker(topics=topics, config=config, report=report or FakeReport())


def node_of(broker: Broker) -> Node:
    assert broker._server is not None
    return broker._server.node


def wait(broker: Broker, is_so: Callable[[MetadataImage], bool]) -> None:
    node = node_of(broker)
    assert call_and_wait(broker._running.call, lambda: node.when_image(is_so, 10_000), "the metadata did not change")


def wait_until_told(broker: Broker) -> None:
    """Waits until the metadata say where both replicas lie."""
    node = node_of(broker)

    def is_told(image: MetadataImage) -> bool:
        partitions = image.topics["orders"].partitions
        dirs = [node.logs.dir_of(TopicPartition("orders", index)) for index in (0, 1)]
        return [directory_of(partition, 1) for partition in partitions] == [
            log_dir.directory_id if log_dir is not None else None for log_dir in dirs
        ]

    wait(broker, is_told)


def lose_second_dir(broker: Broker) -> int:
    """Returns the partition that was in it, when nobody leads it any more."""
    node = node_of(broker)
    log_dir = node.logs.log_dirs[1]
    (lost,) = (name.partition for name in node.logs.in_dir(log_dir))

    def fail() -> None:
        log_dir.go_offline(OSError(errno.EIO, "Input/output error"))

    broker._running.call(fail)
    wait(broker, lambda image: image.topics["orders"].partitions[lost].leader == -1)
    return lost


def test_what_was_in_a_failed_dir_has_no_leader_and_everybody_is_told_why(tmp_path: Path) -> None:
    report = FakeReport()
    broker = broker_in(tmp_path, ORDERS, report).start()
    wait_until_told(broker)
    lost = lose_second_dir(broker)
    with RawClient(broker.port) as client:
        assert client.produce("orders", good(), partition=lost).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.produce("orders", good(), partition=1 - lost).error_code == ErrorCode.NONE
        described = client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")]))
        partition = described.topics[0].partitions[lost]
        found = (partition.leader_id, list(partition.isr_nodes), list(partition.offline_replicas))
        assert found == (-1, [], [1])
        assert list(partition.eligible_leader_replicas) == [1]  # it led alone: with the dir it has everything
        dirs = client.call(DescribeLogDirsRequest(topics=None)).results
        assert [each.error_code for each in dirs] == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert report.having("1 replica(s) in ")
    assert report.having("repair or replace the disk, then restart this broker")
    with pytest.raises(StopFailed):
        broker.stop()


@pytest.mark.parametrize(
    ("is_replaced", "first_offset"),
    [
        (False, 3),  # all is there again
        (True, 0),  # an empty disk: what only it had is gone
    ],
)
def test_a_dir_that_was_repaired_or_replaced_is_served_after_the_next_start(
    tmp_path: Path, is_replaced: bool, first_offset: int
) -> None:
    broker = broker_in(tmp_path, ORDERS).start()
    with RawClient(broker.port) as client:
        for index in (0, 1):
            assert client.produce("orders", good(3), partition=index).error_code == 0
    wait_until_told(broker)
    lost = lose_second_dir(broker)
    with pytest.raises(StopFailed):
        broker.stop()
    if is_replaced:
        shutil.rmtree(tmp_path / DIRS[1])
    with broker_in(tmp_path) as broker, RawClient(broker.port) as client:
        wait(broker, lambda image: all(each.leader == 1 for each in image.topics["orders"].partitions))
        wait_until_told(broker)
        assert client.produce("orders", good(), partition=lost).base_offset == first_offset
        assert client.produce("orders", good(), partition=1 - lost).base_offset == 3
