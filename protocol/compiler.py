"""Turns a declaration into Python source, one function per struct and version, and compiles it.

Adjacent numbers are read and written by one `struct` call, lengths are checked before anything is sliced, and an array's
count is checked against the bytes that are left before anything is allocated.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import REQUIRED, Decoder, Encoder, Field, default_of

FORMATS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
           "float64": "d", "uuid": "16s"}  # fmt: skip
_VARIABLE_MIN_BYTES = {"string": 2, "bytes": 4, "records": 4, "array": 4, "struct": 0}


def compile_init(cls: Any) -> Callable[..., None]:
    parameters = [
        field.name if field.default is REQUIRED else f"{field.name}=D_{field.name}" for field in cls.__fields__
    ]
    body = [f"    self.{field.name} = {field.name}" for field in cls.__fields__] or ["    pass"]
    source = [f"def __init__(self, {'*, ' if parameters else ''}{', '.join(parameters)}):", *body]
    scope = {f"D_{field.name}": default_of(field) for field in cls.__fields__}
    init: Callable[..., None] = _function(source, scope, "__init__", cls)
    return init


def compile_encoder(cls: Any, version: int) -> Encoder:
    return _Encoder(version, _is_flexible(cls, version)).compile(cls)


def compile_decoder(cls: Any, version: int) -> Decoder:
    return _Decoder(version, _is_flexible(cls, version)).compile(cls)


def _is_flexible(cls: Any, version: int) -> bool:
    assert version in cls.__versions__, f"{cls.__name__} has no version {version}"
    return cls.__flexible_since__ is not None and version >= cls.__flexible_since__


def _function(source: list[str], scope: dict[str, Any], name: str, cls: Any) -> Any:
    exec(compile("\n".join(source), f"<{cls.__name__} {name}>", "exec"), scope)
    return scope[name]


class _Compiler:
    """What reading and writing share: which fields a version has, and how they group."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.scope: dict[str, Any] = dict(_RUNTIME)

    def plain_fields(self, cls: Any) -> list[Field]:
        return [field for field in cls.__fields__ if field.in_version(self.version) and field.tag is None]

    def tagged_fields(self, cls: Any) -> list[Field]:
        tagged = [field for field in cls.__fields__ if field.in_version(self.version) and field.tag is not None]
        return sorted(tagged, key=lambda field: field.tag)

    def groups(self, cls: Any) -> Iterator[list[Field]]:
        """Runs of fixed-size fields together, every other field by itself."""
        run: list[Field] = []
        for field in self.plain_fields(cls):
            if field.kind in FORMATS:
                run.append(field)
                continue
            if run:
                yield run
            run = []
            yield [field]
        if run:
            yield run

    def constant(self, value: Any) -> str:
        """A name for a value that the compiled code refers to."""
        if value is None or isinstance(value, bool | int):
            return repr(value)
        name = f"C{len(self.scope)}"
        self.scope[name] = value
        return name

    def layout(self, fields: list[Field]) -> Struct:
        return Struct(">" + "".join(FORMATS[field.kind] for field in fields))

    def min_bytes(self, element: Any) -> int:
        """The fewest bytes an array's element can take: what bounds a count that a stranger wrote."""
        if isinstance(element, Field):
            if element.kind in FORMATS:
                return Struct(">" + FORMATS[element.kind]).size
            return 1 if self.flexible else _VARIABLE_MIN_BYTES[element.kind]
        total = sum(self._field_min_bytes(field) for field in self.plain_fields(element))
        return max(1, total + (1 if self.flexible else 0))

    def _field_min_bytes(self, field: Field) -> int:
        if field.kind == "struct":
            return 1 if field.nullable_in(self.version) else self.min_bytes(field.of)
        return self.min_bytes(field)


class _Decoder(_Compiler):
    def compile(self, cls: Any) -> Decoder:
        name = f"decode_{cls.__name__}"
        if name in self.scope:
            return self.scope[name]  # type: ignore[no-any-return]
        source = [f"def {name}(buffer, p, end):", f"    m = new({self.constant(cls)})"]
        for fields in self.groups(cls):
            source += (
                self._fixed(fields) if fields[0].kind in FORMATS else self._variable(fields[0], f"m.{fields[0].name}")
            )
        source += self._absent(cls)
        if self.flexible:
            source += self._tags(cls)
        source.append("    return m, p")
        return _function(source, self.scope, name, cls)  # type: ignore[no-any-return]

    def _fixed(self, fields: list[Field]) -> list[str]:
        layout = self.layout(fields)
        targets = "".join(f"m.{field.name}, " for field in fields)
        return [f"    {targets.rstrip() if len(fields) == 1 else targets.rstrip(', ')} = {self.constant(layout.unpack_from)}(buffer, p)",
                f"    p += {layout.size}"]  # fmt: skip

    def _absent(self, cls: Any) -> list[str]:
        present = {field.name for field in self.plain_fields(cls)}
        absent = [field for field in cls.__fields__ if field.name not in present]
        return [f"    m.{field.name} = {self.constant(default_of(field))}" for field in absent]

    def _length(self, kind: str) -> list[str]:
        """Leaves the length in n; -1 is null."""
        if self.flexible:
            return ["    n = buffer[p] - 1; p += 1", "    if n > 126: n, p = uvarint(buffer, p - 1); n -= 1"]
        return ["    n, = int16(buffer, p); p += 2"] if kind == "string" else ["    n, = int32(buffer, p); p += 4"]

    def _variable(self, field: Field, target: str) -> list[str]:
        if field.kind == "struct":
            return self._struct(field, target)
        null = (
            [f"        {target} = None"]
            if field.nullable_in(self.version)
            else ["        raise Malformed('null where none is allowed')"]
        )
        lines = [
            *self._length(field.kind),
            "    if n < 0:",
            "        if n < -1: raise Malformed('a negative length')",
            *null,
        ]
        if field.kind == "array":
            return [*lines, "    else:", *(f"    {line}" for line in self._array(field, target))]
        value = {"string": "str(buffer[p:e], 'utf-8')", "bytes": "bytes(buffer[p:e])", "records": "buffer[p:e]"}[
            field.kind
        ]
        return [*lines, "    else:", "        e = p + n", "        if e > end: raise Malformed('a length beyond the end')",
                f"        {target} = {value}", "        p = e"]  # fmt: skip

    def _array(self, field: Field, target: str) -> list[str]:
        check = f"    if n * {self.min_bytes(field.of)} > end - p: raise Malformed('an array beyond the end')"
        if not isinstance(field.of, Field):
            self.compile(field.of)
            return [check, f"    {target} = items = []", "    for _ in range(n):",
                    f"        item, p = decode_{field.of.__name__}(buffer, p, end)", "        items.append(item)"]  # fmt: skip
        if field.of.kind == "uuid":
            return [
                check,
                f"    {target} = [bytes(buffer[q:q + 16]) for q in range(p, p + 16 * n, 16)]",
                "    p += 16 * n",
            ]
        if field.of.kind in FORMATS:
            size = Struct(">" + FORMATS[field.of.kind]).size
            return [
                check,
                f"    {target} = list(unpack_from(f'>{{n}}{FORMATS[field.of.kind]}', buffer, p))",
                f"    p += {size} * n",
            ]
        inner = self._variable(field.of, "item")
        return [
            check,
            f"    {target} = items = []",
            "    for _ in range(n):",
            *(f"    {line}" for line in inner),
            "        items.append(item)",
        ]

    def _struct(self, field: Field, target: str) -> list[str]:
        self.compile(field.of)
        read = f"{target}, p = decode_{field.of.__name__}(buffer, p, end)"
        if not field.nullable_in(self.version):
            return [f"    {read}"]
        return ["    n = buffer[p]; p += 1", f"    if n > 127: {target} = None", f"    else: {read}"]

    def _tags(self, cls: Any) -> list[str]:
        source = ["    k = buffer[p]; p += 1", "    if k:", "        if k > 127: k, p = uvarint(buffer, p - 1)",
                  "        for _ in range(k):", "            tag, p = uvarint(buffer, p)", "            n, p = uvarint(buffer, p)",
                  "            t = p + n", "            if t > end: raise Malformed('a tagged field beyond the end')"]  # fmt: skip
        for field in self.tagged_fields(cls):
            read = self._fixed([field]) if field.kind in FORMATS else self._variable(field, f"m.{field.name}")
            source += [f"            if tag == {field.tag}:", *(f"            {line}" for line in read),
                       "                if p != t: raise Malformed('a tagged field of another size')"]  # fmt: skip
        return [*source, "            p = t"]


class _Encoder(_Compiler):
    def compile(self, cls: Any) -> Encoder:
        name = f"encode_{cls.__name__}"
        if name in self.scope:
            return self.scope[name]  # type: ignore[no-any-return]
        source = [f"def {name}(m, out, slices):"]
        for fields in self.groups(cls):
            source += (
                self._fixed(fields) if fields[0].kind in FORMATS else self._variable(fields[0], f"m.{fields[0].name}")
            )
        if self.flexible:
            source += self._tags(cls)
        return _function([*source, "    return None"], self.scope, name, cls)  # type: ignore[no-any-return]

    def _fixed(self, fields: list[Field]) -> list[str]:
        pack = self.constant(self.layout(fields).pack)
        return [f"    out += {pack}({', '.join(f'm.{field.name}' for field in fields)})"]

    def _length(self, kind: str, length: str) -> str:
        if self.flexible:
            return f"n = {length} + 1\n    if n < 128: out.append(n)\n    else: put_uvarint(out, n)"
        return f"out += {'put_int16' if kind == 'string' else 'put_int32'}({length})"

    def _null(self, kind: str) -> str:
        if self.flexible:
            return "out.append(0)"
        return "out += b'\\xff\\xff'" if kind == "string" else "out += b'\\xff\\xff\\xff\\xff'"

    def _variable(self, field: Field, target: str) -> list[str]:
        if field.kind == "struct":
            return self._struct(field, target)
        body = {"string": self._string, "bytes": self._bytes, "records": self._records, "array": self._array}[
            field.kind
        ](field)
        if not field.nullable_in(self.version):
            return [f"    x = {target}", *body]
        return [
            f"    x = {target}",
            "    if x is None:",
            f"        {self._null(field.kind)}",
            "    else:",
            *_indented(body),
        ]

    def _string(self, field: Field) -> list[str]:
        return ["    b = x.encode()", *_lines(self._length("string", "len(b)")), "    out += b"]

    def _bytes(self, field: Field) -> list[str]:
        return [*_lines(self._length("bytes", "len(x)")), "    out += x"]

    def _records(self, field: Field) -> list[str]:
        return ["    s = getattr(x, 'size', None)", "    if s is None:", *_indented(self._bytes(field)), "    else:",
                *_indented(_lines(self._length("bytes", "s"))), "        slices.append((len(out), x))"]  # fmt: skip

    def _array(self, field: Field) -> list[str]:
        count = _lines(self._length("array", "len(x)"))
        if not isinstance(field.of, Field):
            self.compile(field.of)
            return [*count, f"    for item in x: encode_{field.of.__name__}(item, out, slices)"]
        if field.of.kind in FORMATS:
            return (
                [*count, f"    out += pack(f'>{{len(x)}}{FORMATS[field.of.kind]}', *x)"]
                if field.of.kind != "uuid"
                else [*count, "    for item in x: out += item"]
            )
        return [*count, "    for item in x:", *_indented(self._variable(field.of, "item"))]

    def _struct(self, field: Field, target: str) -> list[str]:
        self.compile(field.of)
        write = f"encode_{field.of.__name__}({target}, out, slices)"
        if not field.nullable_in(self.version):
            return [f"    {write}"]
        return [f"    if {target} is None: out.append(255)", "    else:", "        out.append(1)", f"        {write}"]

    def _tags(self, cls: Any) -> list[str]:
        fields = self.tagged_fields(cls)
        if not fields:
            return ["    out.append(0)"]
        source = ["    tags = []"]
        for field in fields:
            body = self._fixed([field]) if field.kind in FORMATS else self._variable(field, f"m.{field.name}")
            source += [f"    if {self._differs(field)}:", "        whole, out = out, bytearray()", *_indented(body),
                       f"        tags.append(({field.tag}, out)); out = whole"]  # fmt: skip
        return [*source, "    put_tags(out, tags)"]

    def _differs(self, field: Field) -> str:
        if field.kind == "array":
            return (
                f"len(m.{field.name})"
                if not field.nullable_in(self.version)
                else f"m.{field.name} != {self.constant(field.default)}"
            )
        default = self.constant(default_of(field))
        same = f"m.{field.name} is not {default} and " if field.kind == "struct" else ""
        return f"{same}m.{field.name} != {default}"


def _lines(source: str) -> list[str]:
    return f"    {source}".split("\n")


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
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


def _put_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    put_uvarint(out, len(tags))
    for tag, value in tags:
        put_uvarint(out, tag)
        put_uvarint(out, len(value))
        out += value


def _runtime() -> dict[str, Any]:
    from struct import pack, unpack_from

    return {
        "Malformed": ProtocolError,
        "new": object.__new__,
        "uvarint": read_uvarint,
        "put_uvarint": put_uvarint,
        "put_tags": _put_tags,
        "int16": Struct(">h").unpack_from,
        "int32": Struct(">i").unpack_from,
        "put_int16": Struct(">h").pack,
        "put_int32": Struct(">i").pack,
        "pack": pack,
        "unpack_from": unpack_from,
    }


_RUNTIME = _runtime()
