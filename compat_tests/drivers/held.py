"""Producers and consumers that live on between two requests: what a restart must not disturb. For Python drivers."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from json_lines import Answer, Request

POLL_MS = 100


class Pair(Protocol):
    """What a client has to offer: a producer, and a consumer that is assigned to one partition."""

    def send(self, records: list[dict[str, Any]], timeout_ms: int) -> Sequence[int | None]: ...
    def poll(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...


def operations(open_pair: Callable[[Request], Pair]) -> tuple[Callable[[Request], Answer], ...]:
    """The part of the contract that is about them, for one client."""
    pairs: dict[str, Pair] = {}
    unread: dict[str, list[dict[str, Any]]] = {}  # one poll may bring more than was asked for

    def hold(request: Request) -> Answer:
        pairs[request["name"]], unread[request["name"]] = open_pair(request), []
        return {}

    def held_send(request: Request) -> Answer:
        offsets = pairs[request["name"]].send(request["records"], request["timeout_ms"])
        return {"offsets": list(offsets)}

    def held_read(request: Request) -> Answer:
        name, count = request["name"], request["count"]
        deadline = time.monotonic() + request["timeout_ms"] / 1000
        while len(unread[name]) < count and time.monotonic() < deadline:
            unread[name] += pairs[name].poll()
        read, unread[name] = unread[name][:count], unread[name][count:]
        return {"records": read}

    def drop(request: Request) -> Answer:
        del unread[request["name"]]
        pairs.pop(request["name"]).close()
        return {}

    return (hold, held_send, held_read, drop)
