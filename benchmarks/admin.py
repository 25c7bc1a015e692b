"""Topics, made through librdkafka: the same calls for every system."""

import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from benchmarks.systems import Failed

READY_SECONDS = 120
PARTITIONS_AT_ONCE = 1000


def create_topic(address: str, name: str, partitions: int, configs: dict[str, str]) -> None:
    client = AdminClient({"bootstrap.servers": address, "socket.timeout.ms": 120_000, "log_level": 0})
    topic = NewTopic(name, partitions, replication_factor=1, config=configs)
    client.create_topics([topic], operation_timeout=READY_SECONDS)[name].result()
    for first in range(0, partitions, PARTITIONS_AT_ONCE):
        wait_for_leaders(client, name, range(first, min(partitions, first + PARTITIONS_AT_ONCE)))


def wait_for_leaders(client: AdminClient, name: str, partitions: range) -> None:
    """Until each partition answers: a topic is there a little before its leaders are."""
    question = {TopicPartition(name, partition): OffsetSpec.latest() for partition in partitions}
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            for answer in client.list_offsets(question, request_timeout=30).values():
                answer.result()
            return
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise Failed(f"topic {name} is not ready after {READY_SECONDS} s: {error}") from None
            time.sleep(0.02)
