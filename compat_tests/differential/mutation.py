"""Any field of any request at the border of its type, and tagged fields that nobody knows."""

import copy
from random import Random
from typing import Any

from compat_tests.differential.batches import Batch
from compat_tests.differential.codec import TAGS
from compat_tests.differential.schemas import Field, Message
from compat_tests.differential.symbols import Symbol

NOT_UTF_8 = (b"\xff\xfe", b"a\xc3(", b"\xe2\x82", b"\xed\xa0\x80")
"""Bytes for strings: some that never occur, a sequence cut short by a character and by the end, half a surrogate
pair."""

BORDERS: dict[str, tuple[Any, ...]] = {
    "bool": (False, True),
    "int8": (-128, -1, 0, 1, 127),
    "int16": (-(2**15), -1, 0, 1, 2**15 - 1),
    "uint16": (0, 1, 2**16 - 1),
    "int32": (-(2**31), -2, -1, 0, 1, 2**31 - 1),
    "uint32": (0, 1, 2**32 - 1),
    "int64": (-(2**63), -2, -1, 0, 1, 2**63 - 1),
    "float64": (-1.0, 0.0, 1.0),
    "string": (None, "", " ", "\0", "é", "x" * 249, "x" * 250, "x" * 1_000, *NOT_UTF_8),
    "bytes": (None, b"", b"\0", b"\xff" * 100),
    "records": (None, b"", b"\0", b"\xff" * 100),
    "uuid": (bytes(16), bytes(15) + b"\1", b"\xff" * 16),
}

KEPT = {
    ("Fetch", "MaxWaitMs"),  # an answer that waits says nothing new
    ("Produce", "Acks"),  # the shape chooses it: 0 has no answer
    ("CreateTopics", "timeoutMs"),  # a timeout that runs out leaves it open whether anything was done
    ("DeleteTopics", "TimeoutMs"),
    ("CreatePartitions", "TimeoutMs"),
    ("AlterConfigs", "ValidateOnly"),  # what is only validated may be about the broker itself
    ("IncrementalAlterConfigs", "ValidateOnly"),
    ("AlterConfigs", "ResourceType"),
    ("IncrementalAlterConfigs", "ResourceType"),
    ("JoinGroup", "SessionTimeoutMs"),  # what happens when a time is up is not told by a request
    ("JoinGroup", "RebalanceTimeoutMs"),
    ("DeleteTopics", "TopicNames"),  # nothing but what the story owns
}


def mutated(random: Random, message: Message, version: int, value: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Returns a copy with one field changed, somewhere. New names begin with `prefix`, so that no other story has
    them."""
    changed = copy.deepcopy(value)
    places = _places(message, version, changed)
    if random.random() < 0.1 and version in message.flexible:
        random.choice([holder for holder, _ in places] or [changed])[TAGS] = {random.choice((90, 91)): b"unknown"}
        return changed
    if places:
        holder, field = random.choice(places)
        border = _border(random, field, holder.get(field.name, field.default))
        holder[field.name] = named(prefix, border) if field.kind == "string" else border
    return changed


def _places(message: Message, version: int, value: dict[str, Any]) -> list[tuple[dict[str, Any], Field]]:
    """Yields every field of every struct, with the struct that holds it."""
    api = message.name.removesuffix("Request")
    found: list[tuple[dict[str, Any], Field]] = []

    def walk(fields: tuple[Field, ...], holder: dict[str, Any]) -> None:
        for field in fields:
            if version not in field.versions:
                continue
            if (api, field.name) not in KEPT:
                found.append((holder, field))
            inner = holder.get(field.name)
            if field.is_struct and inner:
                for element in inner if field.is_array else [inner]:
                    if element is not None:
                        walk(field.fields, element)

    walk(message.fields, value)
    return found


def _border(random: Random, field: Field, old: Any) -> Any:
    if field.is_array:
        choices = [None, [], *([old * 2, old[:1]] if old else [])]
        if not field.is_struct:
            choices.append([random.choice([border for border in BORDERS[field.kind] if border is not None])])
        return copy.deepcopy(random.choice(choices))
    if field.is_struct:
        return old if old is not None else {}
    borders = BORDERS[field.kind]
    if isinstance(old, int) and not isinstance(old, bool | Symbol) and field.kind.startswith(("int", "uint")):
        borders = (*borders, *(near for near in (old - 1, old + 1) if borders[0] <= near <= borders[-1]))
    if isinstance(old, Batch):
        borders = (*borders, old.encoded(-1)[:-1], old.encoded(-1) + b"\0")
    return random.choice(borders)


def named(prefix: str, border: Any) -> Any:
    """Returns a name as long as the border, where that leaves room for more than the prefix."""
    if isinstance(border, bytes):
        return prefix.encode() + border
    return (prefix + border)[: max(len(border), len(prefix) + 1)] if isinstance(border, str) and border else border
