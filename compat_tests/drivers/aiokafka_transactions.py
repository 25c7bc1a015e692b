"""Transactions with aiokafka."""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_groups import settings
from aiokafka_held import fields, records_out
from json_lines import LARGEST_BYTES, Request
from transactions import Partition, operations

CALL_SECONDS = 60


class Loop:
    """An event loop that turns all the time, as in an application."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = CALL_SECONDS) -> Any:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Producer:
    def __init__(self, request: Request) -> None:
        self.loop = Loop()
        self.loop.run(self._open(request))

    async def _open(self, request: Request) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=request["bootstrap"],
            transactional_id=request["transactional_id"],
            max_request_size=LARGEST_BYTES,
            linger_ms=20,
            **settings(request["settings"]),
        )
        await self.producer.start()

    def begin(self) -> None:
        self.loop.run(self.producer.begin_transaction())

    def send(self, topic: str, records: list[dict[str, Any]], timeout_ms: int) -> list[int]:
        async def acknowledged() -> list[int]:
            sent = [await self.producer.send(topic, **fields(record)) for record in records]
            return [(await future).offset for future in sent]

        found: list[int] = self.loop.run(acknowledged(), timeout_ms / 1000)
        return found

    def send_offsets(self, offsets: dict[Partition, int], group: str, reader: "Reader | None") -> None:
        """It has no place for the consumer's generation."""
        stated = {TopicPartition(*partition): at for partition, at in offsets.items()}
        self.loop.run(self.producer.send_offsets_to_transaction(stated, group))

    def commit(self) -> None:
        self.loop.run(self.producer.commit_transaction())

    def abort(self) -> None:
        self.loop.run(self.producer.abort_transaction())

    def close(self) -> None:
        self.loop.run(self.producer.stop())
        self.loop.close()


class Reader:
    def __init__(self, request: Request) -> None:
        self.loop = Loop()
        self.loop.run(self._open(request))

    async def _open(self, request: Request) -> None:
        self.consumer = AIOKafkaConsumer(
            request["source"],
            bootstrap_servers=request["bootstrap"],
            group_id=request["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await self.consumer.start()

    def poll(self, most: int) -> list[dict[str, Any]]:
        return records_out(self.loop.run(self.consumer.getmany(timeout_ms=200, max_records=most)))

    def close(self) -> None:
        self.loop.run(self.consumer.stop())
        self.loop.close()


TRANSACTIONS = operations(Producer, Reader)
