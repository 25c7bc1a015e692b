"""What each broker names in its own way, under one name for both.

A topic id, a member id, a producer id, a session: the first time that an answer brings one it gets a symbol, the same
on both sides if they answered alike. Requests are written with symbols; each broker is sent its own values.
"""

import re
from typing import Any, NamedTuple

from compat_tests.differential.batches import Batch

KINDS = {
    "TopicId": "topic",
    "MemberId": "member",
    "Leader": "member",
    "ProducerId": "producer",
    "SessionId": "session",
    "ClusterId": "cluster",
    "LogDir": "log dir",
    "Port": "port",
}
PLAIN: dict[str, tuple[Any, ...]] = {"topic": (bytes(16),), "producer": (-1,), "session": (0,), "port": (-1, 0)}
"""The values that mean none, beside null and the empty string."""

RANDOM_ENDINGS = (
    re.compile(r"(.*)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),  # a name and a UUID in Java's form
    re.compile(r"()[A-Za-z0-9_-]{22}"),  # a UUID in Kafka's form
)


class Symbol(NamedTuple):
    kind: str
    number: int

    def __str__(self) -> str:
        return f"<{self.kind} {self.number}>"


class Symbols:
    """One broker's side of the dictionary, for one story."""

    def __init__(self) -> None:
        self.values: dict[Symbol, Any] = {}
        self.names: dict[tuple[str, Any], Symbol] = {}
        self.sent: set[Any] = set()  # what a request said itself comes back as it was

    def resolved(self, value: Any, field: str = "") -> Any:
        """Returns a request as this broker is to see it."""
        if isinstance(value, Symbol):
            return self.values[value]
        if isinstance(value, Batch):
            return value.encoded(self.resolved(value.producer_id, "ProducerId"))
        if isinstance(value, dict):
            return {name: self.resolved(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.resolved(inner, field) for inner in value]
        if isinstance(value, str | bytes):
            self.sent.add(value)
            if isinstance(value, bytes):  # in the place of a string: what is not UTF-8 comes back replaced
                self.sent.add(value.decode(errors="replace"))
        elif field in KINDS:
            self.sent.add((KINDS[field], value))
        return value

    def named(self, field: str, value: Any) -> Any:
        """Returns an answer's leaf with a symbol in the place of what only this broker says."""
        kind = KINDS.get(field)
        if kind is None or value in (None, "") or value in PLAIN.get(kind, ()):
            return value
        if (kind, value) not in self.names:
            if value in self.sent or (kind, value) in self.sent:
                return value
            symbol = self._new(kind, value)
            self.values[symbol] = value
            self.names[kind, value] = symbol
        return self.names[kind, value]

    def _new(self, kind: str, value: Any) -> Symbol:
        if kind == "member":
            forms = (pattern.fullmatch(value) for pattern in RANDOM_ENDINGS)
            kind = next((f"member {form[1]}*" for form in forms if form), f"member {value}")
        return Symbol(kind, sum(symbol.kind == kind for symbol in self.values) + 1)
