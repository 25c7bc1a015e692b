"""Transactions with confluent-kafka."""

from typing import Any

from confluent_held import RECONNECT, message_out, send
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from json_lines import LARGEST_BYTES, Request
from transactions import Partition, operations

CALL_SECONDS = 60


class Transactional:
    def __init__(self, request: Request) -> None:
        self.bootstrap = request["bootstrap"]
        self.producer = Producer(
            {
                "bootstrap.servers": request["bootstrap"],
                "transactional.id": request["transactional_id"],
                "message.max.bytes": LARGEST_BYTES,
                "linger.ms": 20,
                **RECONNECT,
                **request["settings"],
            }
        )
        self.producer.init_transactions(CALL_SECONDS)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, records: list[dict[str, Any]], timeout_ms: int) -> list[int | None]:
        return send(self.producer, topic, records, timeout_ms)

    def send_offsets(self, offsets: dict[Partition, int], group: str, reader: "Reader | None") -> None:
        stated = [TopicPartition(*partition, at) for partition, at in offsets.items()]
        member = reader or Reader({"bootstrap": self.bootstrap, "group": group, "source": None})
        try:
            self.producer.send_offsets_to_transaction(stated, member.consumer.consumer_group_metadata(), CALL_SECONDS)
        finally:
            if reader is None:
                member.close()

    def commit(self) -> None:
        self.producer.commit_transaction(CALL_SECONDS)

    def abort(self) -> None:
        self.producer.abort_transaction(CALL_SECONDS)

    def close(self) -> None:
        self.producer.purge()


class Reader:
    """Without a source it only lends its name to offsets: librdkafka takes a group's from a consumer."""

    def __init__(self, request: Request) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": request["bootstrap"],
                "group.id": request["group"],
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **RECONNECT,
            }
        )
        if request["source"] is not None:
            self.consumer.subscribe([request["source"]])

    def poll(self, most: int) -> list[dict[str, Any]]:
        messages = self.consumer.consume(most, timeout=0.2)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [message_out(message) for message in messages]

    def close(self) -> None:
        self.consumer.close()


TRANSACTIONS = operations(Transactional, Reader)
