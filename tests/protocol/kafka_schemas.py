"""Kafka's own message schemas, read from its jars, in a form to compare ours with.

A message in one version becomes a list of lines, one for each field that this version carries, in the order of the
wire: `topics[].partitions[].fetch_offset: int64 = 0`.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.kafka_jars import kafka_libs, newest_clients_jar

PRIMITIVES = {
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "float64",
    "string",
    "uuid",
    "bytes",
    "records",
}
ZEROS = {"bool": False, "float64": 0.0, "string": "", "uuid": bytes(16), "bytes": b"", "records": b""}


def snake_case(name: str) -> str:
    """As Kafka's names read in Python; KRaft is one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


RENAMED_IN_KAFKA_4_4 = {"TxnOffsetCommitRequest": {"generation_id_or_member_epoch": "generation_id"}}
"""Fields that we call as Kafka 4.3 does."""


@cache
def kafka_schemas() -> dict[str, Any]:
    """Every schema by the name of its message."""
    return _schemas_in(*sorted(kafka_libs().glob("kafka-*.jar")))


@cache
def newest_schemas() -> dict[str, Any]:
    """Those of the newest client, for versions that `kafka_schemas` does not know."""
    return _schemas_in(newest_clients_jar())


def _schemas_in(*jars: Path) -> dict[str, Any]:
    schemas = {}
    for jar in jars:
        with ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.startswith("common/") and entry.endswith(".json"):
                    schema = json.loads(_without_comments(archive.read(entry).decode()))
                    schemas[schema["name"]] = schema
    return schemas


def schema_of(name: str, version: int) -> Any:
    """The schema of the message that has this version: Kafka's own, or that of the newest client."""
    schema = kafka_schemas()[name]
    if version in versions(schema["validVersions"]):
        return schema
    newest, renamed = newest_schemas()[name], RENAMED_IN_KAFKA_4_4.get(name, {})
    fields = [each | {"name": renamed.get(snake_case(each["name"]), each["name"])} for each in newest["fields"]]
    return newest | {"fields": fields}


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def versions(text: str | None) -> range:
    """`3+`, `0-4`, `2` or `none`; a range without an end ends beyond every version there is."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), 2**15)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def fields_of(schema: dict[str, Any], version: int) -> list[str]:
    structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    return _lines(schema["fields"], structs, version, "")


def _lines(fields: list[dict[str, Any]], structs: dict[str, Any], version: int, path: str) -> list[str]:
    lines = []
    for field in fields:
        if version not in versions(field.get("versions", field.get("taggedVersions"))):
            continue
        kind = field["type"]
        element = kind.removeprefix("[]")
        name = path + snake_case(field["name"]) + ("[]" if element != kind else "")
        null = version in versions(field.get("nullableVersions"))
        tag = field["tag"] if version in versions(field.get("taggedVersions")) else None
        lines.append(line(name, element if element in PRIMITIVES else "struct", null, tag, _default(field)))
        if element not in PRIMITIVES:
            lines += _lines(field.get("fields") or structs[element], structs, version, name + ".")
    return lines


def line(name: str, kind: str, nullable: bool, tag: int | None, default: Any) -> str:
    return f"{name}: {kind}{' | null' if nullable else ''} = {default!r}{'' if tag is None else f' tag {tag}'}"


def _default(field: dict[str, Any]) -> Any:
    kind, text = field["type"], field.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind not in PRIMITIVES:
        return "all its own defaults"
    if text is None:
        return ZEROS.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text)
    return int(str(text), 0) if "int" in kind else text
