"""A producer and a consumer of kafka-python that outlive a broker, and records between its shape and the contract's."""

from typing import Any

from held import POLL_MS, operations
from json_lines import Request, headers_in, record_out, to_bytes
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka_python_groups import settings

# A broker that restarts is back before the pauses between two attempts grow to seconds.
RECONNECT: dict[str, Any] = {"reconnect_backoff_max_ms": 500}


def fields(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "partition": record["partition"],
        "key": to_bytes(record["key"]),
        "value": to_bytes(record["value"]),
        "headers": headers_in(record),
        "timestamp_ms": record.get("timestamp"),
    }


def records_out(polled: dict[TopicPartition, list[Any]]) -> list[dict[str, Any]]:
    return [
        record_out(record.partition, record.offset, record.timestamp, record.key, record.value, record.headers or ())
        for records in polled.values()
        for record in records
    ]


class Pair:
    def __init__(self, request: Request) -> None:
        self.topic = request["topic"]
        common = {"bootstrap_servers": request["bootstrap"], **RECONNECT, **settings(request["settings"])}
        self.producer = KafkaProducer(acks="all", enable_idempotence=True, **common)
        self.consumer = KafkaConsumer(group_id=None, **common)
        self.consumer.assign([TopicPartition(self.topic, 0)])
        self.consumer.seek_to_beginning()

    def send(self, records: list[dict[str, Any]], timeout_ms: int) -> list[int]:
        sent = [self.producer.send(self.topic, **fields(record)) for record in records]
        return [future.get(timeout=timeout_ms / 1000).offset for future in sent]

    def poll(self) -> list[dict[str, Any]]:
        return records_out(self.consumer.poll(timeout_ms=POLL_MS))

    def close(self) -> None:
        self.producer.close(timeout=5)
        self.consumer.close()


HELD = operations(Pair)
