"""Every message that the packages declare, and values to fill them with.

Values are drawn from a `random.Random` that is handed in: a seeded one for fuzzing, Hypothesis's own where a failure
should shrink. A field that a version does not carry keeps its default, so that what is decoded equals what was encoded.
"""

import importlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from barnabas.protocol.schema import Field, default_of

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("protocol", "storage", "replication", "broker")

INTEGERS = {"int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
            "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}  # fmt: skip
TEXTS = ("", "orders", "naïve-тема", "𝔘nicode \N{SNOWMAN}", "x" * 63, "x" * 64, "x" * 126, "x" * 127, "é" * 200)
"""Around the lengths at which an encoding or a way of reading changes."""


class Versioned(NamedTuple):
    cls: Any
    version: int

    def __repr__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}"


@cache
def declared_messages() -> tuple[Any, ...]:
    """Only modules that hold a declaration are imported: finding them must not depend on the rest of the project."""
    found: dict[Any, None] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "\n@message(" in path.read_text(encoding="utf-8"):
                name = ".".join(("barnabas", *path.relative_to(ROOT).with_suffix("").parts))
                found |= {
                    value.__name__: value for value in vars(importlib.import_module(name)).values() if is_message(value)
                }
    return tuple(found.values())


def is_message(value: Any) -> bool:
    return isinstance(value, type) and getattr(value, "__versions__", None) is not None


@cache
def every_version() -> tuple[Versioned, ...]:
    return tuple(Versioned(cls, version) for cls in declared_messages() for version in cls.__versions__)


def generate(cls: Any, version: int, random: Random, depth: int = 0) -> Any:
    """A message with values in every field that this version carries."""
    values = {}
    for field in cls.__fields__:
        if not field.in_version(version):
            values[field.name] = default_of(field)
        elif field.nullable_in(version) and random.random() < 0.25:
            values[field.name] = None
        elif field.tag is not None and random.random() < 0.3:
            values[field.name] = default_of(field)
        else:
            values[field.name] = _value(field, version, random, depth)
    return cls(**values)


def _value(field: Field, version: int, random: Random, depth: int) -> Any:
    if field.kind == "array":
        return [_element(field.of, version, random, depth) for _ in range(_count(random, depth))]
    if field.kind == "struct":
        return generate(field.of, version, random, depth + 1)
    return _primitive(field.kind, random)


def _element(of: Any, version: int, random: Random, depth: int) -> Any:
    if isinstance(of, Field):
        return _primitive(of.kind, random)
    return generate(of, version, random, depth + 1)


def _count(random: Random, depth: int) -> int:
    """Mostly few; sometimes more than an array's short form holds."""
    return (
        random.choice((0, 1, 2, 3, 17, 130))
        if depth == 0 and random.random() < 0.1
        else random.randrange(4 - min(depth, 2))
    )


def _primitive(kind: str, random: Random) -> Any:
    if kind in INTEGERS:
        lowest, highest = INTEGERS[kind]
        return random.choice((lowest, highest, 0, 1, highest // 3, random.randint(lowest, highest)))
    if kind == "bool":
        return random.random() < 0.5
    if kind == "string":
        return random.choice(TEXTS)
    if kind == "uuid":
        return random.choice((bytes(16), random.randbytes(16)))
    if kind == "float64":
        return random.choice((0.0, -1.5, 1e300))
    return random.randbytes(random.choice((0, 1, 126, 127, 300, 17_000)))
