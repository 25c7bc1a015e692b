"""confluent-kafka (librdkafka) behind the drivers' contract."""

import time
from collections.abc import Callable
from typing import Any

from confluent_groups import GROUPS
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from json_lines import LARGEST_BYTES, Answer, Request, headers_in, record_out, serve, to_bytes


def produce(request: Request) -> Answer:
    producer = Producer(
        {
            "bootstrap.servers": request["bootstrap"],
            "acks": request["acks"],
            "compression.type": request["compression"],
            "enable.idempotence": request["idempotence"],
            "message.max.bytes": LARGEST_BYTES,
            "linger.ms": 20,
            "delivery.timeout.ms": 20_000,
        }
    )
    found: list[int | None] = [None] * len(request["records"])
    errors: list[Any] = []
    for index, record in enumerate(request["records"]):

        def delivered(error: Any, message: Any, index: int = index) -> None:
            if error is None:
                found[index] = message.offset() if message.offset() is not None else -1
            else:
                errors.append(error)

        producer.produce(request["topic"], on_delivery=delivered, **fields(record))
    producer.flush(20)
    if errors:
        raise KafkaException(errors[0])
    return {"offsets": [-1 if offset is not None and offset < 0 else offset for offset in found]}


def fields(record: dict[str, Any]) -> dict[str, Any]:
    optional = {} if record.get("timestamp") is None else {"timestamp": record["timestamp"]}
    return {
        "partition": record["partition"],
        "key": to_bytes(record["key"]),
        "value": to_bytes(record["value"]),
        "headers": headers_in(record),
        **optional,
    }


def consumer(request: Request) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": request["bootstrap"],
            "group.id": "assigned",  # librdkafka insists on a name; assign() never joins the group
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": LARGEST_BYTES,
            "fetch.max.bytes": 4 * LARGEST_BYTES,
            "receive.message.max.bytes": 5 * LARGEST_BYTES,
        }
    )


def consume(request: Request) -> Answer:
    reader = consumer(request)
    try:
        reader.assign(start_of(reader, request))
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + request["timeout_ms"] / 1000
        while len(records) < request["count"] and time.monotonic() < deadline:
            for message in reader.consume(request["count"] - len(records), timeout=0.1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                records.append(record(message))
        return {"records": records}
    finally:
        reader.close()


def record(message: Any) -> dict[str, Any]:
    _, timestamp = message.timestamp()
    key, value, headers = message.key(), message.value(), message.headers() or ()
    return record_out(message.partition(), message.offset(), timestamp, key, value, headers)


def start_of(reader: Consumer, request: Request) -> list[TopicPartition]:
    start = request["start"]
    if "timestamp" in start:
        return reader.offsets_for_times(partitions(request, start["timestamp"]), timeout=15)
    return partitions(request, start.get("offset", -2))  # -2: the beginning


def partitions(request: Request, offset: int) -> list[TopicPartition]:
    return [TopicPartition(request["topic"], partition, offset) for partition in request["partitions"]]


def offsets(request: Request) -> Answer:
    reader = consumer(request)
    try:
        beginning, end = reader.get_watermark_offsets(partitions(request, 0)[0], timeout=15)
        at = [reader.offsets_for_times(partitions(request, t), timeout=15)[0] for t in request["timestamps"]]
        return {"beginning": beginning, "end": end, "at": [None if f.offset < 0 else f.offset for f in at]}
    finally:
        reader.close()


def with_admin(request: Request, action: Callable[[AdminClient], Any]) -> Any:
    admin = AdminClient({"bootstrap.servers": request["bootstrap"]})  # must outlive the futures it hands out
    (future,) = action(admin).values()
    return future.result(timeout=20)


def create_topic(request: Request) -> Answer:
    topic = NewTopic(request["topic"], request["partitions"], 1, config=request["configs"])
    with_admin(request, lambda admin: admin.create_topics([topic]))
    return {}


def metadata(request: Request, *topic: str) -> dict[str, Any]:
    found: dict[str, Any] = (
        AdminClient({"bootstrap.servers": request["bootstrap"]}).list_topics(*topic, timeout=15).topics
    )
    return found


def list_topics(request: Request) -> Answer:
    return {"topics": list(metadata(request))}


def describe_topic(request: Request) -> Answer:
    topic = metadata(request, request["topic"])[request["topic"]]
    if topic.error is not None:
        raise KafkaException(topic.error)
    return {"partitions": len(topic.partitions)}


def topic_configs(request: Request) -> Answer:
    topic = ConfigResource(ResourceType.TOPIC, request["topic"])
    entries = with_admin(request, lambda admin: admin.describe_configs([topic]))
    return {"configs": {entry.name: entry.value for entry in entries.values()}}


def alter_topic_configs(request: Request) -> Answer:
    change = AlterConfigOpType.SET
    entries = [ConfigEntry(key, value, incremental_operation=change) for key, value in request["configs"].items()]
    topic = ConfigResource(ResourceType.TOPIC, request["topic"], incremental_configs=entries)
    with_admin(request, lambda admin: admin.incremental_alter_configs([topic]))
    return {}


def create_partitions(request: Request) -> Answer:
    change = NewPartitions(request["topic"], request["partitions"])
    with_admin(request, lambda admin: admin.create_partitions([change]))
    return {}


def delete_records(request: Request) -> Answer:
    before = TopicPartition(request["topic"], request["partition"], request["before"])
    return {"low_watermark": with_admin(request, lambda admin: admin.delete_records([before])).low_watermark}


def delete_topic(request: Request) -> Answer:
    with_admin(request, lambda admin: admin.delete_topics([request["topic"]]))
    return {}


ADMIN = (
    create_topic,
    list_topics,
    describe_topic,
    topic_configs,
    alter_topic_configs,
    create_partitions,
    delete_records,
    delete_topic,
)

if __name__ == "__main__":
    serve((produce, consume, offsets, *ADMIN, *GROUPS))
