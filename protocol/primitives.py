"""Values that take more than one expression to read or write: variable-length integers, tags, long strings and arrays.

Truncated input raises IndexError or struct.error here; `schema.decode` turns either into a ProtocolError.
"""

import codecs
import re
from collections.abc import Sequence
from struct import Struct, iter_unpack, pack, unpack_from
from typing import Any

from barnabas.protocol.errors import ProtocolError

STRING_BYTES_MAX = 0x7FFF
"""Kafka's own limit, also where a compact length could say more."""

TAGGED_FIELDS_MAX = 10_000
"""The limit for one struct, as in Kafka since version 4.4. In a whole message they count as elements of arrays do."""

SHORT_STRING = 64
"""Strings of fewer bytes are read by a prepared `struct`, in half the time that slicing a view takes."""
SHORT_ARRAY = 16
"""Arrays of fewer numbers are read and written by one too."""

AS_JAVA_REPLACES = "barnabas.as-java-replaces"
"""The error handler for bytes that are no UTF-8."""


_SURROGATE = rb"\xed[\xa0-\xbf][\x80-\xbf]?"


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replaces bytes as Python does, except for half a surrogate pair, which is one letter to Java. Decodes all that is
    left at once: a call for each byte would take a second for a megabyte of nonsense."""
    assert isinstance(error, UnicodeDecodeError)
    rest = re.sub(_SURROGATE, b"\xff", error.object[error.start :]).decode("utf-8", "replace")
    if error.start + len(rest.encode()) > STRING_BYTES_MAX:
        raise ProtocolError("a string that is no UTF-8, and longer than Kafka allows where it is replaced")
    return rest, len(error.object)


codecs.register_error(AS_JAVA_REPLACES, _replaced)


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Returns the integer at `position`, and where it ends."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise ProtocolError("a variable-length integer of more than 32 bits")


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_tag_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """Returns the number of tagged fields of a struct, and where the first begins."""
    count, position = read_uvarint(buffer, position)
    if count > TAGGED_FIELDS_MAX:
        raise ProtocolError(f"more than {TAGGED_FIELDS_MAX} tagged fields")
    return count, position


def skip_tags(buffer: memoryview, position: int) -> int:
    """Returns where a section of tagged fields ends, none of which is known here."""
    count, position = read_tag_count(buffer, position)
    return skip_counted_tags(buffer, position, count)


def skip_counted_tags(buffer: memoryview, position: int, count: int) -> int:
    """Returns where these tagged fields end."""
    for _ in range(count):
        _tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    if position > len(buffer):
        raise ProtocolError("a tagged field beyond the end")
    return position


def put_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    put_uvarint(out, len(tags))
    for tag, value in tags:
        put_uvarint(out, tag)
        put_uvarint(out, len(value))
        out += value


def read_string(buffer: memoryview, position: int, size: int) -> str:
    if size > min(STRING_BYTES_MAX, len(buffer) - position):
        raise ProtocolError("a string beyond the end, or longer than Kafka allows")
    return str(buffer[position : position + size], "utf-8", AS_JAVA_REPLACES)


def read_numbers(code: str, buffer: memoryview, position: int, count: int) -> Sequence[Any]:
    if code == "16s":
        return [uuid for (uuid,) in iter_unpack("16s", buffer[position : position + 16 * count])]
    return unpack_from(f">{count}{code}", buffer, position)


def put_numbers(code: str, numbers: Sequence[Any]) -> bytes:
    return b"".join(numbers) if code == "16s" else pack(f">{len(numbers)}{code}", *numbers)


RUNTIME: dict[str, Any] = {
    "Malformed": ProtocolError,
    "new": object.__new__,
    "kinds_of_bytes": frozenset((bytes, bytearray, memoryview)),
    "uvarint": read_uvarint,
    "put_uvarint": put_uvarint,
    "tag_count": read_tag_count,
    "skip_tags": skip_counted_tags,
    "put_tags": put_tags,
    "short": tuple(Struct(f"{size}s").unpack_from for size in range(SHORT_STRING)),
    "string": read_string,
    "numbers": read_numbers,
    "put_numbers": put_numbers,
}
"""What compiled codecs refer to by name."""
