"""A producer and a consumer of aiokafka that outlive a broker, and records between its shape and the contract's."""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_groups import settings
from held import POLL_MS, operations
from json_lines import Request, headers_in, record_out, to_bytes


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
        record_out(record.partition, record.offset, record.timestamp, record.key, record.value, record.headers)
        for records in polled.values()
        for record in records
    ]


class Pair:
    """On an event loop that turns all the time, as in an application."""

    def __init__(self, request: Request) -> None:
        self.topic = request["topic"]
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._run(self._open({"bootstrap_servers": request["bootstrap"], **settings(request["settings"])}))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _open(self, common: dict[str, Any]) -> None:
        self.producer = AIOKafkaProducer(acks="all", enable_idempotence=True, **common)
        self.consumer = AIOKafkaConsumer(group_id=None, **common)
        await self.producer.start()
        await self.consumer.start()
        self.consumer.assign([TopicPartition(self.topic, 0)])
        await self.consumer.seek_to_beginning()

    def send(self, records: list[dict[str, Any]], timeout_ms: int) -> list[int]:
        async def acknowledged() -> list[int]:
            sent = [await self.producer.send(self.topic, **fields(record)) for record in records]
            return [(await future).offset for future in sent]

        found: list[int] = self._run(asyncio.wait_for(acknowledged(), timeout_ms / 1000))
        return found

    def poll(self) -> list[dict[str, Any]]:
        return records_out(self._run(self.consumer.getmany(timeout_ms=POLL_MS)))

    def close(self) -> None:
        self._run(self.producer.stop())
        self._run(self.consumer.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


HELD = operations(Pair)
