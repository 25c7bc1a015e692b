"""Every declared message is Kafka's: the same fields in the same order, in every version that is declared."""

from typing import Any

import pytest

from barnabas.protocol.schema import EMPTY, REQUIRED, Field, default_of
from tests.protocol.declared import declared_messages
from tests.protocol.kafka_schemas import fields_of, line, schema_of, versions

MESSAGES = pytest.mark.parametrize("cls", declared_messages(), ids=lambda cls: cls.__name__)


def test_messages_are_found() -> None:
    some = {"ProduceRequest", "FetchResponse", "PartitionRecord", "LeaderChangeMessage", "OffsetCommitValue"}
    assert some <= {cls.__name__ for cls in declared_messages()}


@MESSAGES
def test_every_version_has_the_fields_that_kafka_gives_it(cls: Any) -> None:
    for version in cls.__versions__:
        assert our_fields(cls, version, "") == fields_of(schema_of(cls.__name__, version), version), f"v{version}"


@MESSAGES
def test_versions_flexibility_and_api_key_are_those_of_kafka(cls: Any) -> None:
    schema = schema_of(cls.__name__, cls.__versions__[-1])
    assert set(cls.__versions__) <= set(versions(schema["validVersions"]))
    assert cls.__api_key__ == schema.get("apiKey")
    flexible = [version for version in cls.__versions__ if version in versions(schema["flexibleVersions"])]
    since = cls.__flexible_since__
    assert [version for version in cls.__versions__ if since is not None and version >= since] == flexible


@MESSAGES
def test_every_declared_field_is_carried_by_some_version(cls: Any) -> None:
    assert unused_fields(cls, cls.__versions__, cls.__name__) == []


def our_fields(cls: Any, version: int, path: str) -> list[str]:
    lines = []
    for field in cls.__fields__:
        if field.in_version(version):
            is_array = field.kind == "array"
            name = path + field.name + ("[]" if is_array else "")
            of = field.of if is_array else field
            kind = of.kind if isinstance(of, Field) else "struct"
            lines.append(line(name, kind, field.nullable_in(version), field.tag, our_default(field)))
            if kind == "struct":
                lines += our_fields(field.of, version, name + ".")
    return lines


def our_default(field: Field) -> Any:
    if field.kind == "struct" and field.default in (EMPTY, REQUIRED):
        return "all its own defaults"
    return default_of(field)


def unused_fields(cls: Any, used_in: range, path: str) -> list[str]:
    unused = []
    for field in cls.__fields__:
        carried = [version for version in used_in if field.in_version(version)]
        if not carried:
            unused.append(f"{path}.{field.name}")
        elif hasattr(field.of, "__fields__"):
            unused += unused_fields(field.of, range(carried[0], carried[-1] + 1), f"{path}.{field.name}")
    return unused
