"""AlterReplicaLogDirs: which replicas stay where they are, and what is answered for the rest."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, US, create, register
from tests.broker.wire import RawClient

LONG_NAME = "x" * 220


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Of `ours` it has a replica, in one of its two dirs; of `theirs` it has nothing."""
    dirs = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    with Broker(config={"log.dirs": ",".join(map(str, dirs))}) as broker:
        register(broker)
        create(broker, "ours", [US])
        create(broker, "theirs", [SIBLING])
        create(broker, LONG_NAME, [US])
        yield broker


def dirs_of(broker: Broker) -> tuple[str, str]:
    """Returns the dir that has the replica, and the other one."""
    first, second = (os.path.abspath(log_dir.path) for log_dir in broker._server.node.logs.log_dirs)
    return (first, second) if Path(first, "ours-0").is_dir() else (second, first)


def codes(client: RawClient, version: int, path: str, *topics: str) -> dict[str, ErrorCode]:
    asked = [AlterReplicaLogDirTopic(name=topic, partitions=[0]) for topic in topics]
    answer = client.call(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=asked)]), version)
    return {
        result.topic_name: ErrorCode(partition.error_code)
        for result in answer.results
        for partition in result.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_is_told_to_be_where_it_is(broker: Broker, client: RawClient, version: int) -> None:
    here, _ = dirs_of(broker)
    assert codes(client, version, here, "ours", "theirs", "missing", LONG_NAME) == {
        "ours": ErrorCode.NONE,
        "theirs": ErrorCode.REPLICA_NOT_AVAILABLE,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        LONG_NAME: ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_it_does_not_move(broker: Broker, client: RawClient) -> None:
    here, there = dirs_of(broker)
    assert codes(client, 2, there, "ours") == {"ours": ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert dirs_of(broker) == (here, there)


def test_a_dir_that_is_none_of_the_brokers_is_not_found(client: RawClient) -> None:
    assert codes(client, 2, "/no/such/dir", "ours", "missing") == {
        "ours": ErrorCode.LOG_DIR_NOT_FOUND,
        "missing": ErrorCode.LOG_DIR_NOT_FOUND,
    }


def test_the_last_dir_that_is_named_for_a_replica_counts(broker: Broker, client: RawClient) -> None:
    asked = [AlterReplicaLogDirTopic(name="ours", partitions=[0])]
    dirs = [AlterReplicaLogDir(path=path, topics=asked) for path in ("/no/such/dir", dirs_of(broker)[0])]
    ((result,),) = (topic.partitions for topic in client.call(AlterReplicaLogDirsRequest(dirs=dirs)).results)
    assert result.error_code == ErrorCode.NONE
