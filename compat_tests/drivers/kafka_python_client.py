"""kafka-python behind the drivers' contract; PYTHONPATH decides whether it is version 3 or version 2."""

import time
from collections.abc import Iterable
from typing import Any

from json_lines import LARGEST_BYTES, Answer, Request, serve
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka_python_groups import GROUPS, VERSION_2, with_admin
from kafka_python_held import HELD, fields, records_out
from kafka_python_transactions import TRANSACTIONS


def produce(request: Request) -> Answer:
    timeout_ms = request["timeout_ms"]
    producer = KafkaProducer(
        bootstrap_servers=request["bootstrap"],
        acks=request["acks"] if request["acks"] == "all" else int(request["acks"]),
        compression_type=None if request["compression"] == "none" else request["compression"],
        enable_idempotence=request["idempotence"],
        max_request_size=LARGEST_BYTES,
        linger_ms=20,
        max_block_ms=timeout_ms,
        delivery_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms - 100,
        **({"buffer_memory": 4 * LARGEST_BYTES} if VERSION_2 else {}),
    )
    try:
        sent = [producer.send(request["topic"], **fields(record)) for record in request["records"]]
        producer.flush(timeout=timeout_ms / 1000)
        if VERSION_2 and request["acks"] == "0":
            wait_until_sent(producer)
        return {"offsets": [future.get(timeout=timeout_ms / 1000).offset for future in sent]}
    finally:
        producer.close(timeout=5)


def wait_until_sent(producer: KafkaProducer) -> None:
    """With acks=0 version 2 queues the bytes and forgets them until something else is sent: here, Metadata, to any of
    the brokers."""
    connections = producer._sender._client._conns
    while any(connection._send_buffer or connection._protocol.bytes_to_send for connection in [*connections.values()]):
        producer._metadata.request_update()
        producer._sender.wakeup()
        time.sleep(0.01)


def consumer(request: Request) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=None,
        enable_auto_commit=False,
        max_partition_fetch_bytes=LARGEST_BYTES,
        fetch_max_bytes=4 * LARGEST_BYTES,
        auto_offset_reset=request.get("reset") or "latest",
        isolation_level=request.get("isolation", "read_uncommitted"),
    )


def partitions(request: Request, which: str = "partitions") -> list[TopicPartition]:
    return [TopicPartition(request["topic"], partition) for partition in request[which]]


def consume(request: Request) -> Answer:
    reader = consumer(request)
    try:
        reader.assign(partitions(request))
        seek(reader, request)
        return {"records": read(reader, request["count"], request["timeout_ms"])}
    finally:
        reader.close()


def read(reader: KafkaConsumer, count: int, timeout_ms: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout_ms / 1000
    while len(records) < count and time.monotonic() < deadline:
        records += records_out(reader.poll(timeout_ms=200))
    return records


def seek(reader: KafkaConsumer, request: Request) -> None:
    start, wanted = request["start"], partitions(request)
    if "offset" in start:
        for partition in wanted:
            reader.seek(partition, start["offset"])
    elif "timestamp" in start:
        for partition, found in reader.offsets_for_times(dict.fromkeys(wanted, start["timestamp"])).items():
            reader.seek(partition, found.offset)
    elif "end" in start:
        reader.seek_to_end(*wanted)
    else:
        reader.seek_to_beginning(*wanted)


def consume_paused(request: Request) -> Answer:
    reader = consumer(request)
    try:
        reader.assign(partitions(request))
        reader.seek_to_beginning()
        reader.pause(*partitions(request, "pause"))
        records = read(reader, request["count"], request["timeout_ms"])
        reader.resume(*partitions(request, "pause"))
        return {"records": records, "after": read(reader, request["after"], request["timeout_ms"])}
    finally:
        reader.close()


def offsets(request: Request) -> Answer:
    reader = consumer(request)
    try:
        first = partitions(request)[:1]
        (beginning,), (end,) = found_offsets(reader, first, -2), found_offsets(reader, first, -1)
        at = [found_offsets(reader, first, timestamp)[0] for timestamp in request["timestamps"]]
        return {"beginning": beginning, "end": end, "at": at}
    finally:
        reader.close()


def list_offsets(request: Request) -> Answer:
    reader = consumer(request)
    try:
        return {"offsets": found_offsets(reader, partitions(request), request["timestamp"])}
    finally:
        reader.close()


def found_offsets(reader: KafkaConsumer, wanted: Iterable[TopicPartition], timestamp: int) -> list[int | None]:
    if timestamp < 0:
        found = reader.beginning_offsets(wanted) if timestamp == -2 else reader.end_offsets(wanted)
        return [found[partition] for partition in wanted]
    by_time = reader.offsets_for_times(dict.fromkeys(wanted, timestamp))
    return [by_time[partition] and by_time[partition].offset for partition in wanted]


def describe_cluster(request: Request) -> Answer:
    found = with_admin(request, lambda admin: admin.describe_cluster())
    id_field = "node_id" if VERSION_2 else "broker_id"
    return {
        "cluster_id": found["cluster_id"],
        "brokers": [[broker[id_field], broker["host"], broker["port"]] for broker in found["brokers"]],
        "controller": found["controller_id"],
    }


def create_topic(request: Request) -> Answer:
    topic = NewTopic(request["topic"], request["partitions"], -1, topic_configs=request["configs"])
    with_admin(request, lambda admin: admin.create_topics([topic]))
    return {}


def list_topics(request: Request) -> Answer:
    return {"topics": list(with_admin(request, lambda admin: admin.list_topics()))}


def describe_topic(request: Request) -> Answer:
    (topic,) = with_admin(request, lambda admin: admin.describe_topics([request["topic"]]))
    return {"partitions": len(topic["partitions"])}


def resource(request: Request, configs: dict[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, request["topic"], configs)


def topic_configs(request: Request) -> Answer:
    if VERSION_2:
        responses = with_admin(request, lambda admin: admin.describe_configs([resource(request)]))
        return {"configs": {entry[0]: entry[1] for r in responses for found in r.resources for entry in found[4]}}
    described = with_admin(request, lambda admin: admin.describe_configs([resource(request)], config_filter="all"))
    return {"configs": {key: entry["value"] for key, entry in described["topic"][request["topic"]].items()}}


def alter_topic_configs(request: Request) -> Answer:
    """Neither version raises: one hands back words, the other codes."""
    answer = with_admin(request, lambda admin: admin.alter_configs([resource(request, request["configs"])]))
    if VERSION_2:
        refusals = [f"error {found[0]}: {found[1]}" for found in answer.resources if found[0]]
    else:
        refusals = [found for found in answer["topic"].values() if found != "OK"]
    if refusals:
        raise RuntimeError(refusals[0])
    return {}


def create_partitions(request: Request) -> Answer:
    change = {request["topic"]: NewPartitions(request["partitions"])}
    with_admin(request, lambda admin: admin.create_partitions(change))
    return {}


def delete_records(request: Request) -> Answer:
    partition = TopicPartition(request["topic"], request["partition"])
    deleted = with_admin(request, lambda admin: admin.delete_records({partition: request["before"]}))
    return {"low_watermark": deleted[partition]["low_watermark"]}


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
