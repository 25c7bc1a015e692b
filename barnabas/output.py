"""What commands print: tables for people, JSON lines for programs, records as the user wants them.

Rules:
- Data goes to stdout, everything said about it to stderr.
- Data that is no UTF-8 is shown escaped (`\\xff`) and stands in JSON as base64 under another name.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # most commands print no record, and its module is not cheap to load
    from barnabas.protocol.records import Record

_PERCENT = "\ue000"
"""Stands for a literal percent sign while a format is taken apart."""

Formatter = Callable[[str, int, "Record"], bytes]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for line in table_lines(columns, rows):
        print(line)


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table: numbers to the right, the rest to the left, nothing after the last column."""
    lines = [[str(cell) for cell in row] for row in rows]
    table = [list(columns), *lines]
    widths = [max(len(row[column]) for row in table) for column in range(len(columns))]
    right = [bool(lines) and all(_is_number(row[column]) for row in lines) for column in range(len(columns))]
    for row in table:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(row, widths, right)
        )
        yield "  ".join(cells).rstrip()


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal() or text == "-"


def print_json(value: Any) -> None:
    import json

    print(json.dumps(value, ensure_ascii=False))


def say(text: str) -> None:
    """Prints to stderr, for the person at the terminal; does nothing if stderr is closed."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def human_bytes(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def human_duration(seconds: float) -> str:
    """Formats a duration in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{int(seconds)} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes}m {int(seconds % 60)}s"
    return f"{hours}h {minutes % 60}m" if days < 1 else f"{days}d {hours % 24}h"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def iso_time(timestamp_ms: int) -> str:
    """Formats a timestamp in UTC, or as the number itself where no calendar has such a day."""
    try:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(timestamp_ms // 1000))
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{seconds}.{timestamp_ms % 1000:03}Z"


def text_of(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


# ---- records by a format


def record_format(template: str, *, raw: bool = False) -> Formatter:
    r"""Parses a format of kcat's letters: see `_FIELDS`; `%%` is a percent sign, `\n`, `\t`, `\xNN` are as in C."""
    parts: list[Formatter] = []
    first, *rest = unescape(template).replace("%%", _PERCENT).split("%")
    parts.append(_literal(first))
    for part in rest:
        if part[:1] not in _FIELDS or not part:
            raise ValueError(f"%{part[:1]} means nothing: use {' '.join(f'%{name}' for name in _FIELDS)} or %%")
        parts += [_FIELDS[part[0]], _literal(part[1:])]
    shown = _as_is if raw else _shown

    def formatter(topic: str, partition: int, record: "Record") -> bytes:
        return b"".join([shown(part(topic, partition, record)) for part in parts])

    return formatter


def _literal(text: str) -> Formatter:
    data = text.replace(_PERCENT, "%").encode(errors="surrogateescape")
    return lambda topic, partition, record: data


def _as_is(data: bytes) -> bytes:
    return data


def _shown(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        return text_of(data).encode()
    return data


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _or_null(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _headers(record: "Record") -> bytes:
    return b",".join(key.encode(errors="surrogateescape") + b"=" + _or_null(value) for key, value in record.headers)


_FIELDS: dict[str, Formatter] = {
    "t": lambda topic, partition, record: topic.encode(),
    "p": lambda topic, partition, record: b"%d" % partition,
    "o": lambda topic, partition, record: b"%d" % record.offset,
    "k": lambda topic, partition, record: _or_null(record.key),
    "v": lambda topic, partition, record: _or_null(record.value),
    "s": lambda topic, partition, record: _or_null(record.value),
    "h": lambda topic, partition, record: _headers(record),
    "T": lambda topic, partition, record: b"%d" % record.timestamp,
    "K": lambda topic, partition, record: _length(record.key),
    "S": lambda topic, partition, record: _length(record.value),
}

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def unescape(text: str) -> str:
    """Replaces `\\n`, `\\t`, `\\xNN` and the like; a backslash before anything else stands for what follows it.

    A byte above 127 becomes a surrogate escape: encoding with `surrogateescape` gives that byte."""
    import re

    def character(match: re.Match[str]) -> str:
        code = match[1]
        return bytes.fromhex(code[1:]).decode(errors="surrogateescape") if len(code) == 3 else _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", character, text, flags=re.DOTALL)


# ---- records as JSON


def record_json() -> Formatter:
    from json import JSONEncoder

    encode = JSONEncoder(ensure_ascii=False).encode

    def formatter(topic: str, partition: int, record: "Record") -> bytes:
        about = {"topic": topic, "partition": partition}
        return encode(about | record_fields(record)).encode() + b"\n"

    return formatter


def record_fields(record: "Record") -> dict[str, Any]:
    """Returns the record as it stands in JSON."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **data_field("key", record.key),
        **data_field("value", record.value),
        "headers": [
            {
                "key": key.encode(errors="surrogateescape").decode(errors="backslashreplace"),
                **data_field("value", value),
            }
            for key, value in record.headers
        ],
    }


def data_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Returns `name` with the text, or `name_base64` where the data is not UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        from binascii import b2a_base64

        return {f"{name}_base64": b2a_base64(data, newline=False).decode()}
