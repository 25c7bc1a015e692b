"""Transactions of unmodified clients, on one broker and on three: what is committed is read, once, and nothing else."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException

from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from barnabas.testing import Cluster
from tests.broker.transactions.writers import PARTITIONS, TOPIC, WRITERS, Confluent, Writer, committed, read, write

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("forgotten_sockets"),
]

STATE_PARTITIONS = 5
NewWriter = Callable[[], Writer]


def cluster_of(brokers: int) -> Cluster:
    config = {"transaction.state.log.num.partitions": str(STATE_PARTITIONS), "offsets.topic.num.partitions": "1"}
    return Cluster({TOPIC: PARTITIONS}, config, brokers=brokers)


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with cluster_of(request.param) as cluster:
        yield cluster


@pytest.fixture
def three() -> Iterator[Cluster]:
    with cluster_of(3) as cluster:
        yield cluster


@pytest.fixture(params=WRITERS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def writer_of(cluster: Cluster, client: str, transactional_id: str = "mover") -> Writer:
    return WRITERS[client](cluster.bootstrap_servers, transactional_id)


def values(name: str) -> list[str]:
    return [f"{name} {number}" for number in range(6)]


def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: Cluster, client: str) -> None:
    writer = writer_of(cluster, client)
    for name in ("first", "second", "third"):
        writer.begin()
        write(writer, values(name))
        if name == "second":
            writer.flush()
            writer.abort()
        else:
            writer.commit()
    writer.close()
    servers = cluster.bootstrap_servers
    assert sorted(committed(servers)) == values("first") + values("third")
    assert sorted(read(servers, "read_uncommitted")) == values("first") + values("second") + values("third")


def test_transactions_of_two_producers_overlap(cluster: Cluster, client: str) -> None:
    one, other = writer_of(cluster, client, "one"), writer_of(cluster, client, "other")
    for round_number in range(3):
        for writer, name in ((one, "one"), (other, "other")):
            writer.begin()
            write(writer, values(f"{name} {round_number}"))
            writer.flush()
        other.abort()
        one.commit()
    for writer in (one, other):
        writer.close()
    expected = [value for round_number in range(3) for value in values(f"one {round_number}")]
    assert sorted(committed(cluster.bootstrap_servers)) == expected


def test_a_second_instance_fences_the_first_and_its_transaction_is_aborted(cluster: Cluster, client: str) -> None:
    first = writer_of(cluster, client)
    first.begin()
    write(first, values("first"))
    first.flush()
    second = writer_of(cluster, client)
    second.begin()
    write(second, values("second"))
    second.commit()
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        first.commit()
    for writer in (first, second):
        writer.close()
    assert sorted(committed(cluster.bootstrap_servers)) == values("second")


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_transaction_outlives_a_restart_of_its_broker(client: str, is_killed: bool) -> None:
    with cluster_of(1) as cluster:
        writer = writer_of(cluster, client)
        writer.begin()
        write(writer, values("before"))
        writer.flush()
        if is_killed:
            cluster[1].kill()
        else:
            cluster[1].stop()
        cluster[1].start()
        write(writer, values("after"))
        writer.commit()
        writer.close()
        assert sorted(committed(cluster.bootstrap_servers)) == values("after") + values("before")


def test_a_transaction_outlives_the_death_of_a_leader(three: Cluster, client: str) -> None:
    writer = writer_of(three, client)
    writer.begin()
    write(writer, values("before"))
    writer.flush()
    leaders = {three.leader(TOPIC, partition) for partition in range(PARTITIONS)}
    (leader, *_) = [three[leader] for leader in leaders if leader and leader != coordinator_of(three)]
    leader.kill()
    write(writer, values("after"))
    writer.commit()
    leader.start()
    writer.close()
    assert sorted(committed(three.bootstrap_servers)) == values("after") + values("before")


def test_a_transaction_outlives_the_death_of_its_coordinator(three: Cluster) -> None:
    """Without kafka-python: when it has found the next coordinator it may forget to ask it."""
    writer = Confluent(three.bootstrap_servers, "mover")
    writer.begin()
    write(writer, values("before"))
    writer.flush()
    coordinator = three[coordinator_of(three)]
    coordinator.kill()
    write(writer, values("after"))
    writer.commit()
    coordinator.start()
    writer.close()
    assert sorted(committed(three.bootstrap_servers)) == values("after") + values("before")


def coordinator_of(cluster: Cluster) -> int:
    leader = cluster.leader(TRANSACTION_STATE_TOPIC, java_hash("mover") % STATE_PARTITIONS)
    assert leader is not None
    return leader


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
def test_a_transaction_outlives_moves_of_its_leaders(three: Cluster, client: str, is_committed: bool) -> None:
    writer = writer_of(three, client)
    for name in ("first", "second"):
        writer.begin()
        write(writer, values(f"{name} before"))
        writer.flush()
        for partition in range(PARTITIONS):
            move(three, TOPIC, partition)
        write(writer, values(f"{name} after"))
        if is_committed:
            writer.commit()
        else:
            writer.flush()
            writer.abort()
    writer.close()
    names = ("first after", "first before", "second after", "second before")
    expected = [value for name in names for value in values(name)] if is_committed else []
    assert sorted(committed(three.bootstrap_servers)) == expected


def test_a_transaction_outlives_moves_of_its_coordinator(three: Cluster, client: str) -> None:
    writer = writer_of(three, client)
    index = java_hash("mover") % STATE_PARTITIONS
    for name in ("first", "second"):
        writer.begin()
        write(writer, values(f"{name} before"))
        writer.flush()
        move(three, TRANSACTION_STATE_TOPIC, index)
        write(writer, values(f"{name} after"))
        writer.commit()
        move(three, TRANSACTION_STATE_TOPIC, index)
    writer.close()
    names = ("first after", "first before", "second after", "second before")
    assert sorted(committed(three.bootstrap_servers)) == [value for name in names for value in values(name)]


def move(cluster: Cluster, topic: str, partition: int) -> None:
    """Makes the next broker the leader."""
    cluster.wait_in_sync()
    leader = cluster.leader(topic, partition)
    assert leader is not None
    cluster.move_leader(topic, partition, to=leader % len(cluster) + 1)


def test_a_transaction_that_nobody_ends_is_aborted_after_its_timeout(cluster: Cluster) -> None:
    abandoned = Confluent(cluster.bootstrap_servers, "abandoned")
    abandoned.begin()
    write(abandoned, values("abandoned"))
    abandoned.flush()
    cluster.advance(61)
    assert committed(cluster.bootstrap_servers) == []
    with pytest.raises(KafkaException):
        abandoned.commit()
    abandoned.close()
