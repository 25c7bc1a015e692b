"""Transactional producers that live from one request to the next, and copies by consume, transform, produce. For Python
drivers."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from json_lines import Answer, Request

Partition = tuple[str, int]


class Producer(Protocol):
    """What a client has to offer. It has its identity from the broker when it is made."""

    def begin(self) -> None: ...
    def send(self, topic: str, records: list[dict[str, Any]], timeout_ms: int) -> Sequence[int | None]: ...
    def send_offsets(self, offsets: dict[Partition, int], group: str, reader: Any) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Reader(Protocol):
    """A member of a group that reads what is committed, and records as the contract has them, with their topics."""

    def poll(self, most: int) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...


SEND_MS = 30_000


def operations(
    open_producer: Callable[[Request], Producer], open_reader: Callable[[Request], Reader]
) -> tuple[Callable[[Request], Answer], ...]:
    """The part of the contract that is about them, for one client."""
    producers: dict[str, Producer] = {}

    def open_transactional(request: Request) -> Answer:
        producers[request["name"]] = open_producer(request)
        return {}

    def begin_transaction(request: Request) -> Answer:
        producers[request["name"]].begin()
        return {}

    def transactional_send(request: Request) -> Answer:
        sent = producers[request["name"]].send(request["topic"], request["records"], request["timeout_ms"])
        return {"offsets": list(sent)}

    def send_offsets(request: Request) -> Answer:
        offsets = {(each["topic"], each["partition"]): each["offset"] for each in request["offsets"]}
        producers[request["name"]].send_offsets(offsets, request["group"], None)
        return {}

    def commit_transaction(request: Request) -> Answer:
        producers[request["name"]].commit()
        return {}

    def abort_transaction(request: Request) -> Answer:
        producers[request["name"]].abort()
        return {}

    def drop_transactional(request: Request) -> Answer:
        producers.pop(request["name"]).close()
        return {}

    def copy(request: Request) -> Answer:
        producer, reader = open_producer(request), open_reader(request)
        try:
            return copied(request, producer, reader)
        finally:
            reader.close()
            producer.close()

    return (
        *(open_transactional, begin_transaction, transactional_send, send_offsets),
        *(commit_transaction, abort_transaction, drop_transactional, copy),
    )


def copied(request: Request, producer: Producer, reader: Reader) -> Answer:
    """Copies until enough is committed. Some transactions are aborted first, and made again."""
    done = transactions = 0
    while done < request["count"]:
        records = reader.poll(request["per_transaction"])
        if not records:
            continue
        transactions += 1
        if transactions % request["abort_every"] == 0:
            in_transaction(request, producer, reader, records)
            producer.abort()
        in_transaction(request, producer, reader, records)
        producer.commit()
        done += len(records)
    return {"copied": done, "transactions": transactions}


def in_transaction(request: Request, producer: Producer, reader: Reader, records: list[dict[str, Any]]) -> None:
    producer.begin()
    producer.send(request["target"], [{**record, "timestamp": None} for record in records], SEND_MS)
    offsets = {(request["source"], record["partition"]): record["offset"] + 1 for record in records}
    producer.send_offsets(offsets, request["group"], reader)
