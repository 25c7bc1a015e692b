"""A producer and a consumer of confluent-kafka that outlive a broker, and records in its shape and the contract's."""

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from held import POLL_MS, operations
from json_lines import Request, headers_in, record_out, to_bytes

# A broker that restarts is back before the pauses between two attempts grow to seconds.
RECONNECT = {"reconnect.backoff.max.ms": 500}


def send(producer: Producer, topic: str, records: list[dict[str, Any]], timeout_ms: int) -> list[int | None]:
    """The offsets, where the acknowledgements tell them."""
    found: list[int | None] = [None] * len(records)
    errors: list[Any] = []
    for index, record in enumerate(records):

        def delivered(error: Any, message: Any, index: int = index) -> None:
            if error is None:
                found[index] = message.offset()
            else:
                errors.append(error)

        producer.produce(topic, on_delivery=delivered, **fields(record))
    unsent = producer.flush(timeout_ms / 1000)
    if errors:
        raise KafkaException(errors[0])
    if unsent:
        raise TimeoutError(f"{unsent} records are not acknowledged after {timeout_ms} ms")
    return found


def fields(record: dict[str, Any]) -> dict[str, Any]:
    optional = {} if record.get("timestamp") is None else {"timestamp": record["timestamp"]}
    return {
        "partition": record["partition"],
        "key": to_bytes(record["key"]),
        "value": to_bytes(record["value"]),
        "headers": headers_in(record),
        **optional,
    }


def message_out(message: Any) -> dict[str, Any]:
    _, timestamp = message.timestamp()
    key, value, headers = message.key(), message.value(), message.headers() or ()
    return record_out(message.partition(), message.offset(), timestamp, key, value, headers)


class Pair:
    def __init__(self, request: Request) -> None:
        self.topic = request["topic"]
        common = {"bootstrap.servers": request["bootstrap"], **RECONNECT, **request["settings"]}
        self.producer = Producer({"enable.idempotence": True, **common})
        self.consumer = Consumer({"group.id": "held", "enable.auto.commit": False, **common})
        self.consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])

    def send(self, records: list[dict[str, Any]], timeout_ms: int) -> list[int | None]:
        return send(self.producer, self.topic, records, timeout_ms)

    def poll(self) -> list[dict[str, Any]]:
        records = []
        for message in self.consumer.consume(500, timeout=POLL_MS / 1000):
            error = message.error()
            if error is None:
                records.append(message_out(message))
            elif error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):  # told while it tries again
                raise KafkaException(error)
        return records

    def close(self) -> None:
        self.producer.flush(5)
        self.consumer.close()


HELD = operations(Pair)
