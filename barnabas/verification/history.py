"""A history as a file: one JSON object a line, `event` and the fields of that event.

docs/verify.md describes the format for other programs that write it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from types import UnionType
from typing import Any, get_args, get_type_hints

from barnabas.verification import events
from barnabas.verification.events import BadHistory, Event

NAMES: dict[type, str] = {
    events.Begin: "begin",
    events.Sent: "sent",
    events.Acknowledged: "acknowledged",
    events.Failed: "failed",
    events.TransactionBegun: "transaction-begun",
    events.TransactionEnding: "transaction-ending",
    events.TransactionEnded: "transaction-ended",
    events.Consumer: "consumer",
    events.Assigned: "assigned",
    events.Polled: "polled",
    events.Commit: "commit",
    events.Committed: "committed",
    events.Asked: "asked",
    events.Told: "told",
    events.Bounds: "bounds",
    events.Ended: "ended",
    events.Command: "command",
    events.ClientError: "error",
}
CLASSES: dict[str, Callable[..., Event]] = {name: kind for kind, name in NAMES.items()}


_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


def line_of(event: Event) -> str:
    return _encode({"event": NAMES[type(event)], **event._asdict()})


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Yields the events. Raises BadHistory, with the number of the line, for one that is none."""
    for number, line in enumerate(lines, 1):
        try:
            yield _event_of(line)
        except (ValueError, TypeError, KeyError) as error:
            raise BadHistory(f"line {number}: {_reason(error)}") from None


def _event_of(line: str) -> Event:
    fields = _decode(line)
    if not isinstance(fields, dict):
        raise ValueError("it must be a JSON object")
    name = fields.pop("event", None)
    if not isinstance(name, str) or name not in CLASSES:
        raise ValueError(f"the event must be one of {', '.join(CLASSES)}")
    event = CLASSES[name](**fields)
    if tuple(map(type, event)) not in _TYPES[name]:
        raise ValueError(f"a field of the event {name} has the wrong type")
    if name == "polled":
        _check_records(event)
    return event


def _check_records(event: Any) -> None:
    if not set(map(type, event.records)) <= {list} or not set(map(len, event.records)) <= {3}:
        wrong = next(record for record in event.records if type(record) is not list or len(record) != 3)
        raise ValueError(f"a record must be [offset, producer, sequence] and is {wrong!r}")
    if not set(map(type, chain.from_iterable(event.records))) <= {int}:
        wrong = next(record for record in event.records if list(map(type, record)) != [int, int, int])
        raise ValueError(f"a record must be [offset, producer, sequence] and is {wrong!r}")
    if any(type(offset) is not int for offset in event.corrupt):
        raise ValueError("corrupt must be a list of offsets")


def _types_of(kind: type) -> frozenset[tuple[type, ...]]:
    """Returns what the fields may be, all together: one look tells whether an event is right."""
    return frozenset(product(*map(_types_of_field, get_type_hints(kind).values())))


def _types_of_field(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, UnionType):
        return get_args(hint)
    return (hint,) if isinstance(hint, type) else (list, tuple)  # a sequence is a list in JSON


_TYPES = {name: _types_of(kind) for kind, name in NAMES.items()}


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    return text.split(".__new__() ")[-1]
