"""Any message in any version, to bytes and back, by its schema alone. A message is a dict by Kafka's field names.

What is missing is sent as its default. The encoder does not judge: null goes out wherever a length can say it, also
where the schema forbids it, bytes go out as they are where a string belongs, and `TAGS` adds tagged fields that nobody
knows. The decoder is strict.
"""

import struct
from typing import Any

from compat_tests.differential.schemas import Api, Field, Message

TAGS = "unknown tags"
"""The key, in any struct, of its unknown tagged fields: {tag: bytes}."""

NUMBERS = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
API_VERSIONS = 18


class Undecodable(Exception):
    """Not what the schema says."""


def encode(message: Message, version: int, value: dict[str, Any]) -> bytes:
    out = bytearray()
    Encoder(out, version, version in message.flexible).struct(message.fields, value)
    return bytes(out)


def decode(message: Message, version: int, data: bytes) -> dict[str, Any]:
    decoder = Decoder(data, version, version in message.flexible)
    try:
        value = decoder.struct(message.fields)
    except (struct.error, UnicodeDecodeError) as error:
        raise Undecodable(f"{message.name} v{version} at byte {decoder.position}: {error}") from error
    if decoder.position != len(data):
        raise Undecodable(f"{message.name} v{version}: {len(data) - decoder.position} bytes too many")
    return value


def request_frame(
    api: Api, version: int, correlation_id: int, client_id: str | bytes | None, body: bytes, *, key: int | None = None
) -> bytes:
    """Returns a frame with its size in front. The client id keeps its old form in every version of the header."""
    name = client_id.encode() if isinstance(client_id, str) else client_id
    header = struct.pack(
        ">hhih", api.key if key is None else key, version, correlation_id, -1 if name is None else len(name)
    )
    tags = b"\0" if version in api.request.flexible else b""
    payload = header + (name or b"") + tags + body
    return struct.pack(">i", len(payload)) + payload


def response_body(api: Api, version: int, correlation_id: int, payload: bytes) -> bytes:
    """Returns what follows the header, which is checked. ApiVersions has the old header in every version."""
    if payload[:4] != struct.pack(">i", correlation_id):
        raise Undecodable(f"correlation id {payload[:4].hex()} instead of {correlation_id:08x}")
    has_tags = version in api.response.flexible and api.key != API_VERSIONS
    if has_tags and payload[4:5] != b"\0":
        raise Undecodable("tagged fields in the header of a response")
    return payload[5 if has_tags else 4 :]


class Encoder:
    def __init__(self, out: bytearray, version: int, flexible: bool) -> None:
        self.out = out
        self.version = version
        self.flexible = flexible

    def struct(self, fields: tuple[Field, ...], value: dict[str, Any]) -> None:
        unknown = value.keys() - {field.name for field in fields} - {TAGS}
        assert not unknown, f"no version has {unknown}"
        tagged: dict[int, bytes] = dict(value.get(TAGS, {}))
        for field in fields:
            if self.version not in field.versions:
                continue
            given = value.get(field.name, field.default)
            if self.version not in field.tagged:
                self.field(field, given)
            elif not self.is_default(field, given):
                inner = Encoder(bytearray(), self.version, self.flexible)
                inner.field(field, given)
                tagged[field.tag] = bytes(inner.out)
        if self.flexible:
            self.varint(len(tagged))
            for tag, data in sorted(tagged.items()):
                self.varint(tag)
                self.varint(len(data))
                self.out += data

    def is_default(self, field: Field, given: Any) -> bool:
        if field.is_struct and not field.is_array and given is not None and field.default is not None:
            inside = (inner for inner in field.fields if self.version in inner.versions)
            return all(self.is_default(inner, given.get(inner.name, inner.default)) for inner in inside)
        return bool(given == field.default)

    def field(self, field: Field, given: Any) -> None:
        if field.is_array:
            self.length(None if given is None else len(given), wide=True)
            for element in given or ():
                self.element(field, element)
        elif field.is_struct and self.version in field.nullable:
            self.out += b"\xff" if given is None else b"\1"
            if given is not None:
                self.struct(field.fields, given)
        else:
            self.element(field, given)

    def element(self, field: Field, given: Any) -> None:
        if field.is_struct:
            self.struct(field.fields, given)
        elif field.kind in NUMBERS:
            self.out += NUMBERS[field.kind].pack(given)
        elif field.kind == "uuid":
            self.out += given
        else:
            data = given.encode() if isinstance(given, str) else given
            self.length(None if data is None else len(data), wide=field.kind != "string")
            self.out += data or b""

    def length(self, count: int | None, *, wide: bool) -> None:
        if self.flexible:
            self.varint(0 if count is None else count + 1)
        else:
            self.out += NUMBERS["int32" if wide else "int16"].pack(-1 if count is None else count)

    def varint(self, number: int) -> None:
        while number > 127:
            self.out.append(number & 127 | 128)
            number >>= 7
        self.out.append(number)


class Decoder:
    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.flexible = flexible

    def struct(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        present = [field for field in fields if self.version in field.versions]
        value = {field.name: self.field(field) for field in present if self.version not in field.tagged}
        known = {field.tag: field for field in present if self.version in field.tagged}
        for field in known.values():
            value[field.name] = field.default
        for _ in range(self.varint() if self.flexible else 0):
            tag, size = self.varint(), self.varint()
            end = self.position + size
            if tag in known:
                value[known[tag].name] = self.field(known[tag])
            else:
                value.setdefault(TAGS, {})[tag] = self.take(size)
            if self.position != end:
                raise Undecodable(f"tag {tag} is {size} bytes long and ends elsewhere")
        return value

    def field(self, field: Field) -> Any:
        if field.is_array:
            count = self.length(wide=True)
            return self.checked_null(field) if count is None else [self.element(field) for _ in range(count)]
        if field.is_struct and self.version in field.nullable:
            return None if self.take(1) == b"\xff" else self.struct(field.fields)
        return self.element(field)

    def element(self, field: Field) -> Any:
        if field.is_struct:
            return self.struct(field.fields)
        if field.kind in NUMBERS:
            number = NUMBERS[field.kind]
            return number.unpack(self.take(number.size))[0]
        if field.kind == "uuid":
            return self.take(16)
        size = self.length(wide=field.kind != "string")
        if size is None:
            return self.checked_null(field)
        data = self.take(size)
        return data.decode() if field.kind == "string" else data

    def checked_null(self, field: Field) -> None:
        if self.version not in field.nullable:
            raise Undecodable(f"{field.name} is null and may not be in version {self.version}")

    def length(self, *, wide: bool) -> int | None:
        if self.flexible:
            count = self.varint() - 1
        else:
            number = NUMBERS["int32" if wide else "int16"]
            count = number.unpack(self.take(number.size))[0]
        if count < -1 or count > len(self.data) - self.position:
            raise Undecodable(f"a length of {count} at byte {self.position} of {len(self.data)}")
        return None if count == -1 else count

    def varint(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise Undecodable(f"{size} bytes wanted at byte {self.position} of {len(self.data)}")
        taken = self.data[self.position : end]
        self.position = end
        return taken
