"""A topic and its copy while something is killed."""

import json
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.pipelines.records import Record, produce, read
from tests.processes.broker_process import BrokerProcess

PARTITIONS = 2


class Topic:
    """Of numbered records, in two partitions; the broker may be killed and started again."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.name = name

    def produce(self, count: int) -> None:
        numbers = range(count)
        produce(
            self.bootstrap,
            self.name,
            [Record(b"%d" % number, b"value %d" % number, partition=number % PARTITIONS) for number in numbers],
        )

    def count(self) -> int:
        """-1 while the topic is not there."""
        wanted = {TopicPartition(self.name, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        # One that saw a kill would go on to ask with the leader epoch from before.
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return sum(found.result(20).offset for found in admin.list_offsets(wanted).values())
        except KafkaException:
            return -1

    def records(self) -> list[Record]:
        """In order, but for their timestamps."""
        return [record._replace(timestamp_ms=None) for record in read(self.bootstrap, self.name)]


def is_writing(checkpoint: Path) -> bool:
    newest = max((checkpoint / "state").glob("*.json"))
    return bool(json.loads(newest.read_text())["writing"])
