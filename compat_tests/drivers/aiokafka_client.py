"""aiokafka behind the drivers' contract."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_groups import GROUPS, with_admin
from json_lines import LARGEST_BYTES, Answer, Request, headers_in, record_out, serve, to_bytes


def produce(request: Request) -> Answer:
    return asyncio.run(_produce(request))


async def _produce(request: Request) -> Answer:
    producer = AIOKafkaProducer(
        bootstrap_servers=request["bootstrap"],
        acks=request["acks"] if request["acks"] == "all" else int(request["acks"]),
        compression_type=None if request["compression"] == "none" else request["compression"],
        enable_idempotence=request["idempotence"],
        max_request_size=LARGEST_BYTES,
        linger_ms=20,
    )
    await producer.start()
    try:
        sent = [await producer.send(request["topic"], **fields(record)) for record in request["records"]]
        found = [await future for future in sent]
        # With acks=0 there is nothing to know: aiokafka resolves to None.
        return {"offsets": [-1 if metadata is None else metadata.offset for metadata in found]}
    finally:
        await producer.stop()


def fields(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "partition": record["partition"],
        "key": to_bytes(record["key"]),
        "value": to_bytes(record["value"]),
        "headers": headers_in(record),
        "timestamp_ms": record.get("timestamp"),
    }


async def with_consumer(request: Request, action: Callable[[AIOKafkaConsumer], Awaitable[Answer]]) -> Answer:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=None,
        enable_auto_commit=False,
        max_partition_fetch_bytes=LARGEST_BYTES,
        fetch_max_bytes=4 * LARGEST_BYTES,
    )
    await consumer.start()
    try:
        return await action(consumer)
    finally:
        await consumer.stop()


def partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(request["topic"], partition) for partition in request["partitions"]]


def consume(request: Request) -> Answer:
    async def read(consumer: AIOKafkaConsumer) -> Answer:
        consumer.assign(partitions(request))
        await seek(consumer, request)
        records: list[dict[str, Any]] = []
        deadline = asyncio.get_running_loop().time() + request["timeout_ms"] / 1000
        while len(records) < request["count"] and asyncio.get_running_loop().time() < deadline:
            for polled in (await consumer.getmany(timeout_ms=200)).values():
                records += [record_out(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for r in polled]
        return {"records": records}

    return asyncio.run(with_consumer(request, read))


async def seek(consumer: AIOKafkaConsumer, request: Request) -> None:
    start, wanted = request["start"], partitions(request)
    if "offset" in start:
        for partition in wanted:
            consumer.seek(partition, start["offset"])
    elif "timestamp" in start:
        for partition, found in (await consumer.offsets_for_times(dict.fromkeys(wanted, start["timestamp"]))).items():
            consumer.seek(partition, found.offset)
    else:
        await consumer.seek_to_beginning(*wanted)


def offsets(request: Request) -> Answer:
    async def look(consumer: AIOKafkaConsumer) -> Answer:
        wanted = partitions(request)
        at = [(await consumer.offsets_for_times(dict.fromkeys(wanted, t)))[wanted[0]] for t in request["timestamps"]]
        return {
            "beginning": (await consumer.beginning_offsets(wanted))[wanted[0]],
            "end": (await consumer.end_offsets(wanted))[wanted[0]],
            "at": [None if found is None else found.offset for found in at],
        }

    return asyncio.run(with_consumer(request, look))


def refuse_errors(topic_errors: Any) -> Answer:
    """aiokafka hands back the error codes of topic operations instead of raising."""
    for topic, code, *rest in topic_errors:
        if code:
            raise RuntimeError(f"{topic}: error {code} {rest}")
    return {}


def create_topic(request: Request) -> Answer:
    topic = NewTopic(request["topic"], request["partitions"], 1, topic_configs=request["configs"])
    return refuse_errors(with_admin(request, lambda admin: admin.create_topics([topic])).topic_errors)


def list_topics(request: Request) -> Answer:
    return {"topics": with_admin(request, lambda admin: admin.list_topics())}


def describe_topic(request: Request) -> Answer:
    (topic,) = with_admin(request, lambda admin: admin.describe_topics([request["topic"]]))
    return {"partitions": len(topic["partitions"])}


def resource(request: Request, configs: dict[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, request["topic"], configs)


def topic_configs(request: Request) -> Answer:
    responses = with_admin(request, lambda admin: admin.describe_configs([resource(request)]))
    return {"configs": {entry[0]: entry[1] for r in responses for found in r.resources for entry in found[4]}}


def alter_topic_configs(request: Request) -> Answer:
    with_admin(request, lambda admin: admin.alter_configs([resource(request, request["configs"])]))
    return {}


def create_partitions(request: Request) -> Answer:
    change = {request["topic"]: NewPartitions(request["partitions"])}
    return refuse_errors(with_admin(request, lambda admin: admin.create_partitions(change)).topic_errors)


def delete_records(request: Request) -> Answer:
    partition = TopicPartition(request["topic"], request["partition"])
    before = {partition: RecordsToDelete(request["before"])}
    return {"low_watermark": with_admin(request, lambda admin: admin.delete_records(before))[partition]}


def delete_topic(request: Request) -> Answer:
    deleted = with_admin(request, lambda admin: admin.delete_topics([request["topic"]]))
    return refuse_errors(deleted.topic_error_codes)


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
