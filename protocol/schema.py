"""Declare a message once, with versions on its fields; the codec of each version is compiled on first use.

    @message(api_key=12, versions=range(0, 5), flexible_since=4)
    class HeartbeatRequest:
        group_id: str = string()
        group_instance_id: str | None = string(since=3, nullable=True, default=None)

Rules:
- A field exists from version `since` to `until` inclusive. Outside them it decodes to its default and is not encoded.
- `nullable` is True, or the first version in which null is allowed.
- A field with a `tag` travels in the tagged section, only when it differs from its default.
- A field without a default must be given; one that not every version carries always has a default.
- A message is built whole. Decoded arrays are lists; the default of a nested struct is one sealed value that all share.
- A `batches` field decodes to a view of the frame, never a copy. It encodes from bytes, or from anything with a `size`,
  which then stays outside the encoded bytes: see `encode_into`.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import Any, Protocol, TypeVar, dataclass_transform

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.types import ZERO_UUID

T = TypeVar("T")
REQUIRED: Any = object()
EMPTY: Any = object()
"""Stands for the default of a nested struct: all of its own defaults."""


class Slice(Protocol):
    """Record bytes that stay where they are until the socket takes them."""

    @property
    def size(self) -> int: ...


Records = memoryview | bytes | bytearray | Slice | None
Slices = list[tuple[int, Slice]]
"""The place of each slice in the encoded bytes."""


class Field:
    """A declared field. `of` is the element of an array or the nested struct: a Field of a primitive kind, or a
    struct."""

    __slots__ = ("default", "kind", "name", "nullable_since", "of", "since", "tag", "until")

    def __init__(
        self, kind: str, since: int, until: int | None, nullable: bool | int, default: Any, tag: int | None, of: Any
    ) -> None:
        self.kind = kind
        self.since = since
        self.until = until
        self.nullable_since = (0 if nullable else None) if isinstance(nullable, bool) else nullable
        self.default = default
        self.tag = tag
        self.of = of
        self.name = ""

    def in_version(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


def _kind(kind: str) -> Callable[..., Any]:
    def declare(
        *,
        since: int = 0,
        until: int | None = None,
        nullable: bool | int = False,
        default: Any = REQUIRED,
        tag: int | None = None,
        of: Any = None,
    ) -> Any:
        return Field(kind, since, until, nullable, default, tag, of)

    return declare


boolean = _kind("bool")
int8 = _kind("int8")
int16 = _kind("int16")
uint16 = _kind("uint16")
int32 = _kind("int32")
uint32 = _kind("uint32")
int64 = _kind("int64")
float64 = _kind("float64")
string = _kind("string")
uuid = _kind("uuid")
blob = _kind("bytes")
batches = _kind("records")
_array = _kind("array")
_struct = _kind("struct")


def array(of: Any, **options: Any) -> Any:
    """Declares an array of a primitive kind, `array(int32)`, or of a struct, `array(Topic)`."""
    return _array(of=of if hasattr(of, "__fields__") else of(), **options)


def nested(of: type, **options: Any) -> Any:
    """Declares one struct inside another."""
    return _struct(of=of, **options)


ZEROS: dict[str, Any] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "uuid": ZERO_UUID,
    "bytes": b"",
    "records": b"",
    "array": (),
} | dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), 0)
"""Kafka's defaults for declarations that name none."""


def default_of(field: Field) -> Any:
    """Returns the value that a field has in a version that does not carry it."""
    if field.default is EMPTY:
        return _empty(field.of)
    return ZEROS.get(field.kind) if field.default is REQUIRED else field.default


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        string,
        uuid,
        blob,
        batches,
        array,
        nested,
    ),
)
def struct(cls: type[T]) -> type[T]:
    """Declares a part of a message: it takes the version of the message that holds it."""
    return _declared(cls, api_key=None, versions=None, flexible_since=None)


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        string,
        uuid,
        blob,
        batches,
        array,
        nested,
    ),
)
def message(
    *, versions: range, flexible_since: int | None = None, api_key: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Declares a request, a response or a stored record. `flexible_since` is the first version with compact types and
    tags."""

    def declare(cls: type[T]) -> type[T]:
        return _declared(cls, api_key=api_key, versions=versions, flexible_since=flexible_since)

    return declare


def _declared(cls: type[T], api_key: int | None, versions: range | None, flexible_since: int | None) -> type[T]:
    """Returns the class again, with a slot for each field: only the first class knows what was declared."""
    kept = dict(cls.__dict__)
    del kept["__dict__"], kept["__weakref__"]
    fields = []
    for name, field in cls.__dict__.items():
        if isinstance(field, Field):
            assert field.default is not REQUIRED or _always_carried(field, versions), f"{cls.__name__}.{name}"
            field.name = name
            fields.append(field)
            del kept[name]
    kept |= {
        "__slots__": tuple([field.name for field in fields]),
        "__fields__": tuple(fields),
        "__api_key__": api_key,
        "__versions__": versions,
        "__flexible_since__": flexible_since,
        "__encoders__": {},
        "__decoders__": {},
        "__init__": _first_init,
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": None,
    }
    declared: type[T] = type(cls.__name__, cls.__bases__, kept)
    return declared


def _always_carried(field: Field, versions: range | None) -> bool:
    if field.tag is not None:
        return False
    in_every_version = field.since == 0 and field.until is None
    return in_every_version or (versions is not None and all(map(field.in_version, versions)))


def _empty(cls: Any) -> Any:
    """Returns the one instance with nothing but defaults, shared by every message that holds it, and so sealed.

    An encoder knows it by identity: comparing the nested structs of a Fetch response would cost more than the rest."""
    if "__empty__" not in cls.__dict__:
        empty = cls()
        empty.__class__ = type(cls.__name__, (cls,), {"__slots__": (), "__setattr__": _refuse, "__hash__": None})
        cls.__empty__ = empty
    return cls.__empty__


def _refuse(self: Any, name: str, _value: Any) -> None:
    raise AssertionError(f"{self} is a default that many messages share: give {name} to a new {type(self).__name__}")


def _first_init(self: Any, **values: Any) -> None:
    """Fills the first instance field by field. A start creates one each of many messages, and to compile all their
    constructors would take longer than the rest of it."""
    cls = type(self)
    cls.__init__ = _second_init
    fields: tuple[Field, ...] = cls.__fields__
    given = {field.name for field in fields if field.name in values or field.default is not REQUIRED}
    if len(given) < len(fields) or not values.keys() <= given:
        _second_init(self, **values)  # raises TypeError
    for field in fields:
        setattr(self, field.name, values[field.name] if field.name in values else default_of(field))


def _second_init(self: Any, **values: Any) -> None:
    """Compiles the constructor: a message that is created twice is created often."""
    from barnabas.protocol.compiler import compile_init

    cls = type(self)
    cls.__init__ = compile_init(cls)
    cls.__init__(self, **values)


def _repr(self: Any) -> str:
    values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.__fields__)
    return f"{type(self).__name__}({values})"


def _eq(self: Any, other: Any) -> bool:
    fields: tuple[Field, ...] = self.__fields__
    if getattr(other, "__fields__", None) is not fields:
        return False
    for field in fields:  # a loop: every message with tagged fields is compared with its defaults when it is encoded
        ours, theirs = getattr(self, field.name), getattr(other, field.name)
        if ours is not theirs and not _same(ours, theirs):
            return False
    return True


def _same(ours: Any, theirs: Any) -> bool:
    """Compares arrays by their elements: a decoded one is a list, a default one a tuple."""
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return bool(ours == theirs)


Encoder = Callable[[Any, bytearray, Slices], None]
Decoder = Callable[[memoryview, int, int], tuple[Any, int]]


def encoder(cls: type, version: int) -> Encoder:
    encoders: dict[int, Encoder] = cls.__encoders__  # type: ignore[attr-defined]
    if version not in encoders:
        from barnabas.protocol.compiler import compile_encoder

        encoders[version] = compile_encoder(cls, version)
    return encoders[version]


def decoder(cls: type, version: int) -> Decoder:
    decoders: dict[int, Decoder] = cls.__decoders__  # type: ignore[attr-defined]
    if version not in decoders:
        from barnabas.protocol.compiler import compile_decoder

        decoders[version] = compile_decoder(cls, version)
    return decoders[version]


def encode_into(value: object, version: int, out: bytearray, slices: Slices) -> None:
    """Appends to `out`. Records given as slices are noted in `slices` with the place in `out` where they belong."""
    encoder(type(value), version)(value, out, slices)


def encode(value: object, version: int) -> bytearray:
    """Returns the bytes of a message whose records, if any, are bytes."""
    out = bytearray()
    slices: Slices = []
    encode_into(value, version, out, slices)
    assert not slices, "records that are slices need encode_into"
    return out


def decode(cls: type[T], version: int, buffer: bytes | bytearray | memoryview, position: int = 0) -> T:
    """Returns the message that fills `buffer` from `position` to its end. Raises ProtocolError if none does so
    exactly."""
    value, end = decode_from(cls, version, buffer, position)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes after the end of {cls.__name__} v{version}")
    return value


def decode_from(cls: type[T], version: int, buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[T, int]:
    """Returns the message at `position`, and where it ends."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        return decoder(cls, version)(view, position, len(view))
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None
    except (IndexError, ValueError, StructError) as error:
        raise ProtocolError(f"{cls.__name__} v{version}: truncated or malformed ({error})") from None
