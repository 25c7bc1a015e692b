"""Members of groups for the Python drivers: each is a consumer on a thread of its own, polled until it leaves.

What was polled is committed at once; if that is refused, after the next poll, and at the latest before the partition
is given up. So a group whose members all leave in peace sees every record exactly once.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from json_lines import Answer, Request

POLL_MS = 100

Partition = tuple[str, int]


class Consumer(Protocol):
    """What a client has to offer; everything is called on one thread."""

    def poll(self) -> list[tuple[str, int, int]]: ...
    def assignment(self) -> Iterable[Partition]: ...
    def identity(self) -> tuple[str | None, int | None]: ...  # member id and generation, where the client tells
    def commit(self, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None: ...
    def committed(self, partitions: list[Partition]) -> list[dict[str, Any] | None]: ...
    def seek_to_committed(self, partitions: list[Partition]) -> None: ...
    def close(self) -> None: ...


class Member(Thread):
    def __init__(self, request: Request, open_consumer: Callable[["Member"], Consumer]) -> None:
        super().__init__(daemon=True)
        self.request = request
        self.open_consumer = open_consumer
        self.orders: SimpleQueue[tuple[Callable[[Consumer], Any], Future[Any]]] = SimpleQueue()
        self.leaving = False
        self.records: list[tuple[str, int, int]] = []
        self.uncommitted = False
        self.state: dict[str, Any] = {"assignment": [], "member_id": None, "generation": None}
        self.revocations = 0
        self.error: str | None = None

    def run(self) -> None:
        try:
            consumer = self.open_consumer(self)
            try:
                while not self.leaving:
                    self._perform_orders(consumer)
                    self._poll(consumer)
            finally:
                consumer.close()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
        self.state = {**self.state, "assignment": []}

    def _poll(self, consumer: Consumer) -> None:
        polled = consumer.poll()
        self.records += polled
        self.uncommitted |= bool(polled)
        self.commit_polled(consumer)
        member_id, generation = consumer.identity()
        self.state = {
            "assignment": sorted(consumer.assignment()),
            "member_id": member_id,
            "generation": generation,
        }

    def commit_polled(self, consumer: Consumer) -> None:
        if not self.uncommitted or not self.request["commits"]:
            return
        try:
            consumer.commit(None, asynchronous=False)
        except Exception as error:
            if "fenced" in repr(error).lower():
                raise
            print(f"{self.request['member']} commits again after {error!r}", flush=True)
        else:
            self.uncommitted = False

    def _perform_orders(self, consumer: Consumer) -> None:
        while not self.orders.empty():
            order, done = self.orders.get()
            try:
                done.set_result(order(consumer))
            except Exception as error:
                done.set_exception(error)

    def ask(self, order: Callable[[Consumer], Any]) -> Any:
        done: Future[Any] = Future()
        self.orders.put((order, done))
        return done.result(timeout=60)

    def snapshot(self) -> Answer:
        return {**self.state, "records": list(self.records), "revocations": self.revocations, "error": self.error}


def operations(open_consumer: Callable[[Member], Consumer]) -> tuple[Callable[[Request], Answer], ...]:
    """The part of the contract that is about members, for one client."""
    members: dict[str, Member] = {}

    def join(request: Request) -> Answer:
        members[request["member"]] = Member(request, open_consumer)
        members[request["member"]].start()
        return {}

    def member_states(request: Request) -> Answer:
        return {"states": {name: members[name].snapshot() for name in request["members"]}}

    def leave(request: Request) -> Answer:
        leaving = {name: members.pop(name) for name in request["members"]}
        for member in leaving.values():
            member.leaving = True
        for member in leaving.values():
            member.join(timeout=60)
        return {"states": {name: member.snapshot() for name, member in leaving.items()}}

    def commit(request: Request) -> Answer:
        members[request["member"]].ask(lambda consumer: consumer.commit(request["offsets"], request["asynchronous"]))
        return {}

    def committed(request: Request) -> Answer:
        partitions = [(topic, partition) for topic, partition in request["partitions"]]
        return {"committed": members[request["member"]].ask(lambda consumer: consumer.committed(partitions))}

    def seek_to_committed(request: Request) -> Answer:
        partitions = [(topic, partition) for topic, partition in request["partitions"]]
        members[request["member"]].ask(lambda consumer: consumer.seek_to_committed(partitions))
        return {}

    return (join, member_states, leave, commit, committed, seek_to_committed)
