"""aiokafka behind the drivers' contract."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_groups import GROUPS, with_admin
from aiokafka_held import HELD, fields, records_out
from aiokafka_transactions import TRANSACTIONS
from json_lines import LARGEST_BYTES, Answer, Request, serve


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
        request_timeout_ms=request["timeout_ms"],
    )
    await producer.start()
    try:
        sent = [await producer.send(request["topic"], **fields(record)) for record in request["records"]]
        found = [await future for future in sent]
        # With acks=0 there is nothing to know: aiokafka resolves to None.
        return {"offsets": [-1 if metadata is None else metadata.offset for metadata in found]}
    finally:
        await producer.stop()


def with_consumer(request: Request, action: Callable[[AIOKafkaConsumer], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=request["bootstrap"],
            group_id=None,
            enable_auto_commit=False,
            max_partition_fetch_bytes=LARGEST_BYTES,
            fetch_max_bytes=4 * LARGEST_BYTES,
            auto_offset_reset=request.get("reset") or "latest",
            isolation_level=request.get("isolation", "read_uncommitted"),
            request_timeout_ms=request.get("timeout_ms", 30_000),  # so long it looks for a topic
        )
        await consumer.start()
        try:
            return await action(consumer)
        finally:
            await consumer.stop()

    return asyncio.run(run())


def partitions(request: Request, which: str = "partitions") -> list[TopicPartition]:
    return [TopicPartition(request["topic"], partition) for partition in request[which]]


def consume(request: Request) -> Answer:
    async def from_there(consumer: AIOKafkaConsumer) -> Answer:
        consumer.assign(partitions(request))
        await seek(consumer, request)
        return {"records": await read(consumer, request["count"], request["timeout_ms"])}

    return with_consumer(request, from_there)


async def read(consumer: AIOKafkaConsumer, count: int, timeout_ms: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    while len(records) < count and asyncio.get_running_loop().time() < deadline:
        records += records_out(await consumer.getmany(timeout_ms=200))
    return records


async def seek(consumer: AIOKafkaConsumer, request: Request) -> None:
    start, wanted = request["start"], partitions(request)
    if "offset" in start:
        for partition in wanted:
            consumer.seek(partition, start["offset"])
    elif "timestamp" in start:
        for partition, found in (await consumer.offsets_for_times(dict.fromkeys(wanted, start["timestamp"]))).items():
            consumer.seek(partition, found.offset)
    elif "end" in start:
        await consumer.seek_to_end(*wanted)
    else:
        await consumer.seek_to_beginning(*wanted)


def consume_paused(request: Request) -> Answer:
    async def in_two_parts(consumer: AIOKafkaConsumer) -> Answer:
        consumer.assign(partitions(request))
        consumer.pause(*partitions(request, "pause"))
        await consumer.seek_to_beginning(*partitions(request))
        records = await read(consumer, request["count"], request["timeout_ms"])
        consumer.resume(*partitions(request, "pause"))
        return {"records": records, "after": await read(consumer, request["after"], request["timeout_ms"])}

    return with_consumer(request, in_two_parts)


def offsets(request: Request) -> Answer:
    async def look(consumer: AIOKafkaConsumer) -> Answer:
        first = partitions(request)[:1]
        (beginning,), (end,) = await found_offsets(consumer, first, -2), await found_offsets(consumer, first, -1)
        at = [(await found_offsets(consumer, first, timestamp))[0] for timestamp in request["timestamps"]]
        return {"beginning": beginning, "end": end, "at": at}

    return with_consumer(request, look)


def list_offsets(request: Request) -> Answer:
    async def look(consumer: AIOKafkaConsumer) -> Answer:
        return {"offsets": await found_offsets(consumer, partitions(request), request["timestamp"])}

    return with_consumer(request, look)


async def found_offsets(
    consumer: AIOKafkaConsumer, wanted: Iterable[TopicPartition], timestamp: int
) -> list[int | None]:
    if timestamp < 0:
        found = await (consumer.beginning_offsets(wanted) if timestamp == -2 else consumer.end_offsets(wanted))
        return [found[partition] for partition in wanted]
    by_time = await consumer.offsets_for_times(dict.fromkeys(wanted, timestamp))
    return [by_time[partition] and by_time[partition].offset for partition in wanted]


def describe_cluster(request: Request) -> Answer:
    found = with_admin(request, lambda admin: admin.describe_cluster())
    return {
        "cluster_id": found["cluster_id"],
        "brokers": [[broker["node_id"], broker["host"], broker["port"]] for broker in found["brokers"]],
        "controller": found["controller_id"],
    }


def refuse_errors(topic_errors: Any) -> Answer:
    """aiokafka hands back the error codes instead of raising."""
    for topic, code, *rest in topic_errors:
        if code:
            raise RuntimeError(f"{topic}: error {code} {rest}")
    return {}


def create_topic(request: Request) -> Answer:
    replicas = len(describe_cluster(request)["brokers"])  # aiokafka cannot leave the number to the broker
    topic = NewTopic(request["topic"], request["partitions"], replicas, topic_configs=request["configs"])
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
    responses = with_admin(request, lambda admin: admin.alter_configs([resource(request, request["configs"])]))
    return refuse_errors((name, code, text) for response in responses for code, text, _, name in response.resources)


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
