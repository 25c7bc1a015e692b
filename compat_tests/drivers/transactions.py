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


class Transactionals:
    """The part of the contract that is about them, for one client: a method for each operation."""

    def __init__(self, open_producer: Callable[[Request], Producer], open_reader: Callable[[Request], Reader]) -> None:
        self.open_producer = open_producer
        self.open_reader = open_reader
        self.producers: dict[str, Producer] = {}

    def open_transactional(self, request: Request) -> Answer:
        self.producers[request["name"]] = self.open_producer(request)
        return {}

    def begin_transaction(self, request: Request) -> Answer:
        self.producers[request["name"]].begin()
        return {}

    def transactional_send(self, request: Request) -> Answer:
        sent = self.producers[request["name"]].send(request["topic"], request["records"], request["timeout_ms"])
        return {"offsets": list(sent)}

    def send_offsets(self, request: Request) -> Answer:
        offsets = {(each["topic"], each["partition"]): each["offset"] for each in request["offsets"]}
        self.producers[request["name"]].send_offsets(offsets, request["group"], None)
        return {}

    def commit_transaction(self, request: Request) -> Answer:
        self.producers[request["name"]].commit()
        return {}

    def abort_transaction(self, request: Request) -> Answer:
        self.producers[request["name"]].abort()
        return {}

    def drop_transactional(self, request: Request) -> Answer:
        self.producers.pop(request["name"]).close()
        return {}

    def copy(self, request: Request) -> Answer:
        producer, reader = self.open_producer(request), self.open_reader(request)
        try:
            return copied(request, producer, reader)
        finally:
            reader.close()
            producer.close()


def operations(
    open_producer: Callable[[Request], Producer], open_reader: Callable[[Request], Reader]
) -> tuple[Callable[[Request], Answer], ...]:
    one = Transactionals(open_producer, open_reader)
    return (
        *(one.open_transactional, one.begin_transaction, one.transactional_send, one.send_offsets),
        *(one.commit_transaction, one.abort_transaction, one.drop_transactional, one.copy),
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
