"""confluent-kafka (librdkafka) behind the drivers' contract."""

import time
from collections.abc import Callable
from typing import Any

from confluent_groups import GROUPS
from confluent_held import HELD, message_out, send
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_transactions import TRANSACTIONS
from json_lines import LARGEST_BYTES, Answer, Request, serve


def produce(request: Request) -> Answer:
    timeout_ms = request["timeout_ms"]
    producer = Producer(
        {
            "bootstrap.servers": request["bootstrap"],
            "acks": request["acks"],
            "compression.type": request["compression"],
            "enable.idempotence": request["idempotence"],
            "message.max.bytes": LARGEST_BYTES,
            "linger.ms": 20,
            "delivery.timeout.ms": timeout_ms,
            # Until then an unknown topic is one that may only be new.
            "topic.metadata.propagation.max.ms": timeout_ms // 2,
        }
    )
    found = send(producer, request["topic"], request["records"], timeout_ms)
    return {"offsets": [-1 if offset is not None and offset < 0 else offset for offset in found]}


RESETS = {None: "error", "none": "error", "earliest": "earliest", "latest": "latest"}


def consumer(request: Request) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": request["bootstrap"],
            "group.id": "assigned",  # librdkafka insists on a name; assign() never joins the group
            "enable.auto.commit": False,
            "auto.offset.reset": RESETS[request.get("reset")],
            "isolation.level": request.get("isolation", "read_uncommitted"),
            "fetch.message.max.bytes": LARGEST_BYTES,
            "fetch.max.bytes": 4 * LARGEST_BYTES,
            "receive.message.max.bytes": 5 * LARGEST_BYTES,
        }
    )


def consume(request: Request) -> Answer:
    reader = consumer(request)
    try:
        reader.assign(start_of(reader, request))
        return {"records": read(reader, request["count"], request["timeout_ms"])}
    finally:
        reader.close()


def read(reader: Consumer, count: int, timeout_ms: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout_ms / 1000
    while len(records) < count and time.monotonic() < deadline:
        for message in reader.consume(count - len(records), timeout=0.1):
            if message.error() is not None:
                raise KafkaException(message.error())
            records.append(message_out(message))
    return records


def start_of(reader: Consumer, request: Request) -> list[TopicPartition]:
    start = request["start"]
    if "timestamp" in start:
        return reader.offsets_for_times(partitions(request, start["timestamp"]), timeout=15)
    return partitions(request, start.get("offset", OFFSET_END if "end" in start else OFFSET_BEGINNING))


def partitions(request: Request, offset: int, which: str = "partitions") -> list[TopicPartition]:
    return [TopicPartition(request["topic"], partition, offset) for partition in request[which]]


def consume_paused(request: Request) -> Answer:
    reader = consumer(request)
    paused = partitions(request, OFFSET_BEGINNING, "pause")
    try:
        reader.assign(partitions(request, OFFSET_BEGINNING))
        reader.pause(paused)
        records = read(reader, request["count"], request["timeout_ms"])
        reader.resume(paused)
        return {"records": records, "after": read(reader, request["after"], request["timeout_ms"])}
    finally:
        reader.close()


def offsets(request: Request) -> Answer:
    reader = consumer(request)
    try:
        beginning, end = reader.get_watermark_offsets(partitions(request, 0)[0], timeout=15)
        at = [reader.offsets_for_times(partitions(request, t), timeout=15)[0] for t in request["timestamps"]]
        return {"beginning": beginning, "end": end, "at": [None if f.offset < 0 else f.offset for f in at]}
    finally:
        reader.close()


def list_offsets(request: Request) -> Answer:
    admin = AdminClient({"bootstrap.servers": request["bootstrap"]})  # must outlive the futures it hands out
    places = {-2: OffsetSpec.earliest(), -1: OffsetSpec.latest()}
    place = places.get(request["timestamp"]) or OffsetSpec.for_timestamp(request["timestamp"])
    futures = admin.list_offsets(dict.fromkeys(partitions(request, 0), place), request_timeout=15)
    found = {partition.partition: future.result(timeout=20).offset for partition, future in futures.items()}
    return {"offsets": [found[partition] if found[partition] >= 0 else None for partition in request["partitions"]]}


def describe_cluster(request: Request) -> Answer:
    admin = AdminClient({"bootstrap.servers": request["bootstrap"]})
    found = admin.describe_cluster(request_timeout=15).result(timeout=20)
    return {
        "cluster_id": found.cluster_id,
        "brokers": [[node.id, node.host, node.port] for node in found.nodes],
        "controller": found.controller and found.controller.id,
    }


def with_admin(request: Request, action: Callable[[AdminClient], Any]) -> Any:
    admin = AdminClient({"bootstrap.servers": request["bootstrap"]})  # must outlive the futures it hands out
    (future,) = action(admin).values()
    return future.result(timeout=20)


def create_topic(request: Request) -> Answer:
    topic = NewTopic(request["topic"], request["partitions"], -1, config=request["configs"])
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
    describe_cluster,
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
    serve((produce, consume, consume_paused, offsets, list_offsets, *HELD, *TRANSACTIONS, *ADMIN, *GROUPS))
