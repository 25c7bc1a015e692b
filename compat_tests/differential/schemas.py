"""Kafka's message schemas, from the jar of its clients: which fields a message has in which version, and how."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from compat_tests.brokers import KAFKA_LIBS

PRIMITIVES = frozenset(
    ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "uuid", "bytes", "records")
)
FOREVER = 2**15  # beyond every version there is


class Field(NamedTuple):
    name: str
    kind: str  # of its elements, if it is an array
    is_array: bool
    versions: range
    nullable: range
    tagged: range
    tag: int
    flexible: range | None  # where it differs from its message
    default: Any
    fields: tuple["Field", ...]  # of a struct

    @property
    def is_struct(self) -> bool:
        return self.kind not in PRIMITIVES


class Message(NamedTuple):
    name: str
    api_key: int
    is_request: bool
    versions: range
    stable: range  # those that a broker tells of
    flexible: range
    listeners: tuple[str, ...]  # of a request: brokers', controllers' or both
    fields: tuple[Field, ...]

    def fields_in(self, version: int) -> Iterator[Field]:
        return (field for field in self.fields if version in field.versions)


class Api(NamedTuple):
    key: int
    name: str
    request: Message
    response: Message


@cache
def apis() -> dict[str, Api]:
    """Returns the APIs that clients may call, by name."""
    served = (schema for schema in _schemas() if schema["validVersions"] != "none")
    messages = [_message(schema) for schema in served if schema["type"] in ("request", "response")]
    requests = {message.api_key: message for message in messages if message.is_request}
    responses = {message.api_key: message for message in messages if not message.is_request}
    return {
        request.name.removesuffix("Request"): Api(key, request.name.removesuffix("Request"), request, responses[key])
        for key, request in sorted(requests.items())
    }


def _schemas() -> Iterator[dict[str, Any]]:
    with ZipFile(clients_jar()) as jar:
        for entry in jar.namelist():
            if entry.startswith("common/message/") and entry.endswith(".json"):
                yield json.loads(re.sub(r"^\s*//.*$", "", jar.read(entry).decode(), flags=re.MULTILINE))


def clients_jar() -> Path:
    (jar,) = KAFKA_LIBS.glob("kafka-clients-*.jar")
    return jar


def _message(schema: dict[str, Any]) -> Message:
    structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    versions = _versions(schema["validVersions"])
    return Message(
        name=schema["name"],
        api_key=schema["apiKey"],
        is_request=schema["type"] == "request",
        versions=versions,
        stable=versions[:-1] if schema.get("latestVersionUnstable") else versions,
        flexible=_versions(schema.get("flexibleVersions")),
        listeners=tuple(schema.get("listeners", ())),
        fields=_fields(schema["fields"], structs),
    )


def _fields(given: list[dict[str, Any]], structs: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(_field(field, structs) for field in given)


def _field(field: dict[str, Any], structs: dict[str, Any]) -> Field:
    kind = field["type"].removeprefix("[]")
    is_array = kind != field["type"]
    fields = () if kind in PRIMITIVES else _fields(field.get("fields") or structs[kind], structs)
    return Field(
        name=field["name"],
        kind=kind,
        is_array=is_array,
        versions=_versions(field["versions"]),
        nullable=_versions(field.get("nullableVersions")),
        tagged=_versions(field.get("taggedVersions")),
        tag=field.get("tag", -1),
        flexible=_versions(field["flexibleVersions"]) if "flexibleVersions" in field else None,
        default=_default(kind, is_array, field.get("default")),
        fields=fields,
    )


def _default(kind: str, is_array: bool, given: Any) -> Any:
    if given == "null":
        return None
    if is_array:
        return []
    if kind not in PRIMITIVES:
        return {}
    if kind == "string":
        return given or ""
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind == "bool":
        return str(given).lower() == "true"
    return float(given or 0) if kind == "float64" else int(str(given or 0), 0)


def _versions(text: str | None) -> range:
    """Parses `3+`, `0-4`, `2` or `none`."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), FOREVER)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
