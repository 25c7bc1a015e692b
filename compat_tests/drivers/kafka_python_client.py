"""kafka-python behind the drivers' contract; PYTHONPATH decides whether it is version 3 or version 2."""

import time
from typing import Any

import kafka
from json_lines import LARGEST_BYTES, Answer, Request, headers_in, record_out, serve, to_bytes
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka_python_groups import GROUPS, with_admin

VERSION_2 = kafka.__version__.startswith("2.")


def produce(request: Request) -> Answer:
    producer = KafkaProducer(
        bootstrap_servers=request["bootstrap"],
        acks=request["acks"] if request["acks"] == "all" else int(request["acks"]),
        compression_type=None if request["compression"] == "none" else request["compression"],
        enable_idempotence=request["idempotence"],
        max_request_size=LARGEST_BYTES,
        linger_ms=20,
        **({"buffer_memory": 4 * LARGEST_BYTES} if VERSION_2 else {}),
    )
    try:
        sent = [producer.send(request["topic"], **fields(record)) for record in request["records"]]
        producer.flush(timeout=20)
        if VERSION_2 and request["acks"] == "0":
            wait_until_sent(producer)
        return {"offsets": [future.get(timeout=20).offset for future in sent]}
    finally:
        producer.close(timeout=5)


def wait_until_sent(producer: KafkaProducer) -> None:
    """With acks=0 version 2 queues the bytes and forgets them until something else is sent: here, Metadata."""
    producer._metadata.request_update()
    producer._sender.wakeup()
    connections = producer._sender._client._conns.values()
    while any(connection._send_buffer or connection._protocol.bytes_to_send for connection in connections):
        time.sleep(0.01)


def fields(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "partition": record["partition"],
        "key": to_bytes(record["key"]),
        "value": to_bytes(record["value"]),
        "headers": headers_in(record),
        "timestamp_ms": record.get("timestamp"),
    }


def consumer(request: Request) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=None,
        enable_auto_commit=False,
        max_partition_fetch_bytes=LARGEST_BYTES,
        fetch_max_bytes=4 * LARGEST_BYTES,
    )


def partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(request["topic"], partition) for partition in request["partitions"]]


def consume(request: Request) -> Answer:
    reader = consumer(request)
    try:
        reader.assign(partitions(request))
        seek(reader, request)
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + request["timeout_ms"] / 1000
        while len(records) < request["count"] and time.monotonic() < deadline:
            for polled in reader.poll(timeout_ms=200).values():
                records += [
                    record_out(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers or ()) for r in polled
                ]
        return {"records": records}
    finally:
        reader.close()


def seek(reader: KafkaConsumer, request: Request) -> None:
    start, wanted = request["start"], partitions(request)
    if "offset" in start:
        for partition in wanted:
            reader.seek(partition, start["offset"])
    elif "timestamp" in start:
        for partition, found in reader.offsets_for_times(dict.fromkeys(wanted, start["timestamp"])).items():
            reader.seek(partition, found.offset)
    else:
        reader.seek_to_beginning(*wanted)


def offsets(request: Request) -> Answer:
    reader = consumer(request)
    try:
        wanted = partitions(request)
        at = [reader.offsets_for_times(dict.fromkeys(wanted, t))[wanted[0]] for t in request["timestamps"]]
        return {
            "beginning": reader.beginning_offsets(wanted)[wanted[0]],
            "end": reader.end_offsets(wanted)[wanted[0]],
            "at": [None if found is None else found.offset for found in at],
        }
    finally:
        reader.close()


def create_topic(request: Request) -> Answer:
    topic = NewTopic(request["topic"], request["partitions"], 1, topic_configs=request["configs"])
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
    with_admin(request, lambda admin: admin.alter_configs([resource(request, request["configs"])]))
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
