"""Topics, created through librdkafka: the same calls for every system."""

import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPartition  # librdkafka's client has no call for reassignments

from benchmarks.systems import Failed

READY_SECONDS = 300
PARTITIONS_AT_ONCE = 1000
CREATED_AT_ONCE = 5000  # Apache Kafka refuses to create ten thousand in one request
LATEST = OffsetSpec.latest()


def create_topic(
    address: str, name: str, partitions: int, configs: dict[str, str], assignment: list[list[int]] | None = None
) -> None:
    """Creates a topic, whose replicas are where `assignment` says, and waits until all are in sync."""
    client = connected(address)
    if assignment is not None:
        topic = NewTopic(name, partitions, replica_assignment=assignment, config=configs)
        client.create_topics([topic], operation_timeout=READY_SECONDS)[name].result()
        wait_until_in_sync(address, name, len(assignment[0]))
    else:
        topic = NewTopic(name, min(partitions, CREATED_AT_ONCE), replication_factor=1, config=configs)
        client.create_topics([topic], operation_timeout=READY_SECONDS)[name].result()
        for count in range(CREATED_AT_ONCE * 2, partitions + CREATED_AT_ONCE, CREATED_AT_ONCE):
            more = NewPartitions(name, min(count, partitions))
            client.create_partitions([more], operation_timeout=READY_SECONDS)[name].result()
    wait_for_leaders(address, name, partitions)


def create_topics(address: str, names: list[str]) -> None:
    """Creates topics of one partition with one request, and waits for the answer."""
    topics = [NewTopic(name, 1, replication_factor=1) for name in names]
    client = connected(address)  # kept: an answer that waits ends with its client
    for created in client.create_topics(topics, operation_timeout=READY_SECONDS).values():
        created.result()


def connected(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "socket.timeout.ms": 300_000, "log_level": 0})


def reassign(address: str, name: str, replicas: list[list[int]]) -> None:
    """Asks for other replicas of each partition, and returns before they have caught up."""
    wanted = {KafkaPartition(name, index): ids for index, ids in enumerate(replicas)}
    with KafkaAdminClient(bootstrap_servers=address) as client:
        answers = client.alter_partition_reassignments(wanted)
    if refused := {str(error) for error in answers.values() if error is not None}:
        raise Failed(f"topic {name} is not reassigned: {', '.join(refused)}")


def wait_for_leaders(address: str, name: str, partitions: int) -> None:
    """Waits until each partition answers: a topic exists a little before its leaders do."""
    for first in range(0, partitions, PARTITIONS_AT_ONCE):
        _wait_for(address, name, range(first, min(partitions, first + PARTITIONS_AT_ONCE)))


def wait_until_in_sync(address: str, name: str, replicas: int) -> None:
    """Waits until every partition has so many replicas in sync."""
    client, deadline = connected(address), time.monotonic() + READY_SECONDS
    while True:
        partitions = client.list_topics(name, timeout=30).topics[name].partitions.values()
        if partitions and all(len(partition.isrs) >= replicas for partition in partitions):
            return
        if time.monotonic() > deadline:
            raise Failed(f"topic {name} has replicas that are not in sync after {READY_SECONDS} s")
        time.sleep(0.02)


def _wait_for(address: str, name: str, partitions: range) -> None:
    question = {TopicPartition(name, partition): LATEST for partition in partitions}
    deadline = time.monotonic() + READY_SECONDS
    while True:
        # A new client each time: one that has seen a topic does not look for more partitions for minutes.
        client = connected(address)
        try:
            for answer in client.list_offsets(question, request_timeout=30).values():
                answer.result()
            return
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise Failed(f"topic {name} is not ready after {READY_SECONDS} s: {error}") from None
            time.sleep(0.02)
