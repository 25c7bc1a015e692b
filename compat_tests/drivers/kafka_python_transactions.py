"""Transactions with kafka-python, versions 2 and 3."""

from typing import Any

from json_lines import LARGEST_BYTES, Request
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka_python_groups import VERSION_2, settings
from kafka_python_held import RECONNECT, fields, records_out
from transactions import Partition, operations


class Producer:
    def __init__(self, request: Request) -> None:
        self.producer = KafkaProducer(
            bootstrap_servers=request["bootstrap"],
            transactional_id=request["transactional_id"],
            max_request_size=LARGEST_BYTES,
            linger_ms=20,
            **RECONNECT,
            **settings(request["settings"]),
        )
        self.producer.init_transactions()

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, records: list[dict[str, Any]], timeout_ms: int) -> list[int]:
        sent = [self.producer.send(topic, **fields(record)) for record in records]
        return [future.get(timeout=timeout_ms / 1000).offset for future in sent]

    def send_offsets(self, offsets: dict[Partition, int], group: str, reader: "Reader | None") -> None:
        stated = {TopicPartition(*partition): OffsetAndMetadata(at, "", -1) for partition, at in offsets.items()}
        is_member = reader is not None and not VERSION_2
        self.producer.send_offsets_to_transaction(stated, reader.consumer.group_metadata() if is_member else group)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self) -> None:
        self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(timeout=0)


class Reader:
    def __init__(self, request: Request) -> None:
        self.consumer = KafkaConsumer(
            request["source"],
            bootstrap_servers=request["bootstrap"],
            group_id=request["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **RECONNECT,
        )

    def poll(self, most: int) -> list[dict[str, Any]]:
        return records_out(self.consumer.poll(timeout_ms=200, max_records=most))

    def close(self) -> None:
        self.consumer.close()


TRANSACTIONS = operations(Producer, Reader)
