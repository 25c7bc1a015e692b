"""Turns a declaration into Python source, one function per message and version, and compiles it.

The source is what one would write by hand. Nested structs and arrays stand inline; numbers, and the length of what
follows them, are read and written by one `struct` call; a length is checked before anything is sliced, and the count of
an array against the bytes that are left before anything is allocated.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from barnabas.protocol.primitives import AS_JAVA_REPLACES, RUNTIME, SHORT_ARRAY, SHORT_STRING, STRING_BYTES_MAX
from barnabas.protocol.schema import EMPTY, REQUIRED, Decoder, Encoder, Field, default_of

FORMATS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
           "float64": "d", "uuid": "16s"}  # fmt: skip


MAX_ELEMENTS = 1_000_000
"""The limit for all arrays of a message together; since version 4.4 Kafka allows as many in each. An element of two
bytes becomes an object of a hundred: without a limit a hostile frame would take forty times its size and hold up
everybody else while it is decoded."""


def compile_init(cls: Any) -> Callable[..., None]:
    fields: tuple[Field, ...] = cls.__fields__
    parameters = [field.name if field.default is REQUIRED else f"{field.name}=D_{field.name}" for field in fields]
    lines = [f"def __init__(self, {'*, ' if fields else ''}{', '.join(parameters)}):", " pass"]
    lines += [f" self.{field.name} = {field.name}" for field in fields]
    scope = {f"D_{field.name}": default_of(field) for field in fields}
    init: Callable[..., None] = _function(lines, scope, "__init__", cls.__name__)
    return init


def compile_encoder(cls: Any, version: int) -> Encoder:
    source = _EncoderSource(cls, version)
    with source.block("def encode(m0, out, slices):"):
        source.struct(cls, "m0", 0)
        source.flush()
        source.line("return None")
    encode: Encoder = _function(source.lines, source.scope, "encode", f"{cls.__name__} v{version}")
    return encode


def compile_decoder(cls: Any, version: int) -> Decoder:
    source = _DecoderSource(cls, version)
    with source.block("def decode(buffer, p, end):"):
        source.line(f"room = {MAX_ELEMENTS}")
        source.struct(cls, "", 0)
        source.line("return m0, p")
    decode: Decoder = _function(source.lines, source.scope, "decode", f"{cls.__name__} v{version}")
    return decode


def _function(lines: list[str], scope: dict[str, Any], name: str, title: str) -> Any:
    """Returns the function of this source. `compile` would be the usual way to name it for tracebacks, but the first
    call of that prepares all classes of Python's syntax trees, which takes a thirtieth of a broker's start."""
    exec("\n".join(lines), scope)
    function = scope[name]
    function.__code__ = function.__code__.replace(co_filename=f"<{title} {name}>")
    return function


class _Source:
    """What reading and writing share: the lines, the values they refer to, and which fields a version has.

    A variable's name ends in the depth of nesting of the struct it belongs to, `m1` in `m0`.
    """

    def __init__(self, cls: Any, version: int) -> None:
        assert version in cls.__versions__, f"{cls.__name__} has no version {version}"
        self.version = version
        self.flexible = cls.__flexible_since__ is not None and version >= cls.__flexible_since__
        self.null, self.more = (0, " + 1") if self.flexible else (-1, "")
        self.scope: dict[str, Any] = dict(RUNTIME)
        self.lines: list[str] = []
        self.indent = 0
        self.run: list[tuple[str, str]] = []
        """Adjacent numbers, each with its format, for the one `struct` call that `flush` writes."""

    def line(self, source: str) -> None:
        self.lines.append(" " * self.indent + source)

    def block(self, head: str) -> "_Source":
        """Writes `head`. Lines written in a `with` of the result are one deeper."""
        self.line(head)
        return self

    def __enter__(self) -> None:
        self.indent += 1

    def __exit__(self, *_: object) -> None:
        self.indent -= 1

    def constant(self, value: Any) -> str:
        """Returns how the source refers to a value."""
        if value is None or type(value) in (bool, int):
            return repr(value)
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def call(self, method: str, formats: str) -> str:
        """Returns the name of a method of the `struct` with these formats."""
        name = f"{method}_{formats}".replace("?", "o")
        if name not in self.scope:
            self.scope[name] = getattr(Struct(">" + formats), method)
        return name

    def calls(self, method: str, code: str) -> str:
        """Returns the name of a tuple whose item n is the method for n of these."""
        name = f"{method}_n_{code}".replace("?", "o")
        if name not in self.scope:
            self.scope[name] = tuple(getattr(Struct(">" + code * n), method) for n in range(SHORT_ARRAY))
        return name

    def plain_fields(self, cls: Any) -> list[Field]:
        return [field for field in cls.__fields__ if field.in_version(self.version) and field.tag is None]

    def tagged_fields(self, cls: Any) -> list[Field]:
        tagged = [field for field in cls.__fields__ if field.in_version(self.version) and field.tag is not None]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def length_format(self, kind: str) -> str:
        if self.flexible:
            return "B"
        return "h" if kind == "string" else "i"


class _DecoderSource(_Source):
    """`p` is the position in the buffer; lengths and counts are read into `n`, the number of tags into `k`."""

    def struct(self, cls: Any, target: str, depth: int) -> None:
        m = f"m{depth}"
        self.line(f"{m} = {target}new({self.constant(cls)})")
        plain = self.plain_fields(cls)
        for field in plain:
            self.field(field, f"{m}.{field.name}", depth)
        for field in cls.__fields__:
            if field not in plain:
                self.line(f"{m}.{field.name} = {self.constant(default_of(field))}")
        if self.flexible:
            self.run.append(("k", "B"))
            self.flush()
            self.tags(self.tagged_fields(cls), depth)
        self.flush()

    def flush(self) -> None:
        run, self.run = self.run, []
        formats = "".join(code for _, code in run)
        if formats == "B":
            self.line(f"{run[0][0]} = buffer[p]; p += 1")
        elif run:
            targets = "".join(f"{target}, " for target, _ in run)
            self.line(f"{targets}= {self.call('unpack_from', formats)}(buffer, p); p += {Struct('>' + formats).size}")

    def field(self, field: Field, target: str, depth: int) -> None:
        if field.kind in FORMATS:
            self.run.append((target, FORMATS[field.kind]))
        elif field.kind == "struct":
            self.flush()
            self.nested(field, target, depth)
        else:
            self.variable(field, target, depth)

    def nested(self, field: Field, target: str, depth: int) -> None:
        if not field.nullable_in(self.version):
            return self.struct(field.of, f"{target} = ", depth + 1)
        if field.tag is None:  # a byte before the struct, negative for null; in a tag a varint, zero for null
            self.line("n = buffer[p]; p += 1")
        else:
            self.line("n, p = uvarint(buffer, p)")
        with self.block("if n < 128:" if field.tag is None else "if n:"):
            self.struct(field.of, f"{target} = ", depth + 1)
        return self.line(f"else: {target} = None")

    def variable(self, field: Field, target: str, depth: int) -> None:
        """Reads a field that begins with its length. A negative length means null; a compact one is stored plus one."""
        self.run.append(("n", self.length_format(field.kind)))
        self.flush()
        if self.flexible:
            self.line("if n > 127: n, p = uvarint(buffer, p - 1)")
            self.line("n -= 1")
        if not field.nullable_in(self.version):
            self.line("if n < 0: raise Malformed('no null is allowed here')")
            return self.content(field, target, depth)
        with self.block("if n >= 0:"):
            self.content(field, target, depth)
        return self.line(f"else: {target} = None")

    def content(self, field: Field, target: str, depth: int) -> None:
        if field.kind == "array":
            self.line(f"if n * {self.min_bytes(field.of)} > end - p: raise Malformed('an array beyond the end')")
            self.take_room("n")
            return self.array(field.of, target, depth)
        if field.kind == "string":
            short = f"short[n](buffer, p)[0].decode('utf-8', '{AS_JAVA_REPLACES}')"
            self.line(f"{target} = {short} if n < {SHORT_STRING} else string(buffer, p, n)")
        else:
            self.line("if n > end - p: raise Malformed('a length beyond the end')")
            self.line(f"{target} = " + ("bytes(buffer[p:p + n])" if field.kind == "bytes" else "buffer[p:p + n]"))
        return self.line("p += n")

    def array(self, of: Any, target: str, depth: int) -> None:
        if isinstance(of, Field) and of.kind in FORMATS:
            code, short = FORMATS[of.kind], self.calls("unpack_from", FORMATS[of.kind])
            read = f"{short}[n](buffer, p) if n < {SHORT_ARRAY} else numbers('{code}', buffer, p, n)"
            self.line(f"{target} = list({read}); p += {self.min_bytes(of)} * n")
            return
        self.line(f"{target} = items{depth} = []")
        with self.block("for _ in range(n):"):
            if isinstance(of, Field):
                self.variable(of, "item", depth)
                self.line(f"items{depth}.append(item)")
            else:
                self.struct(of, "", depth + 1)
                self.line(f"items{depth}.append(m{depth + 1})")

    def tags(self, fields: list[Field], depth: int) -> None:
        if not fields:
            with self.block("if k:"):
                self.line("k, p = tag_count(buffer, p - 1)")
                self.take_room("k")
                self.line("p = skip_tags(buffer, p, k)")
            return
        with self.block("if k:"):
            self.line("k, p = tag_count(buffer, p - 1)")
            self.take_room("k")
            with self.block("for _ in range(k):"):
                self.line(f"tag, p = uvarint(buffer, p); n, p = uvarint(buffer, p); end{depth} = p + n")
                for field in fields:
                    with self.block(f"{'if' if field is fields[0] else 'elif'} tag == {field.tag}:"):
                        self.field(field, f"m{depth}.{field.name}", depth)
                        self.flush()
                self.line(f"else: p = end{depth}")
                self.line(f"if p != end{depth}: raise Malformed('a tagged field of another size')")
            self.line("if p > end: raise Malformed('a tagged field beyond the end')")

    def take_room(self, count: str) -> None:
        """Counts elements of arrays, and tagged fields, over the whole message."""
        self.line(f"room -= {count}")
        self.line(f"if room < 0: raise Malformed('more than {MAX_ELEMENTS} elements')")

    def min_bytes(self, of: Any) -> int:
        """Returns the fewest bytes an element of an array can take. They bound a count that a stranger wrote."""
        if not isinstance(of, Field):
            return max(1, sum(map(self.min_bytes, self.plain_fields(of))) + self.flexible)
        if of.kind == "struct":
            return 1 if of.nullable_in(self.version) else self.min_bytes(of.of)
        return Struct(">" + (FORMATS.get(of.kind) or self.length_format(of.kind))).size


class _EncoderSource(_Source):
    """Lengths and counts are computed in `n`; compact ones are one more than the length, and null is 0."""

    def struct(self, cls: Any, m: str, depth: int) -> None:
        for field in self.plain_fields(cls):
            self.field(field, f"{m}.{field.name}", depth)
        if self.flexible:
            self.tags(self.tagged_fields(cls), m, depth)

    def flush(self) -> None:
        if self.run:
            self.line(self.put(self.run))
        self.run = []

    def put(self, run: list[tuple[str, str]]) -> str:
        formats = "".join(code for _, code in run)
        if formats == "B":
            return f"out.append({run[0][0]})"
        return f"out += {self.call('pack', formats)}({', '.join(value for value, _ in run)})"

    def field(self, field: Field, target: str, depth: int) -> None:
        if field.kind in FORMATS:
            self.run.append((target, FORMATS[field.kind]))
        elif field.kind == "struct":
            self.nested(field, target, depth)
        else:
            self.variable(field, target, depth)

    def nested(self, field: Field, target: str, depth: int) -> None:
        if not field.nullable_in(self.version):
            return self.struct(field.of, target, depth + 1)
        self.flush()
        self.line(f"if {target} is None: out.append({255 if field.tag is None else 0})")
        with self.block("else:"):
            self.run.append(("1", "B"))
            self.struct(field.of, target, depth + 1)
            self.flush()
        return None

    def variable(self, field: Field, target: str, depth: int) -> None:
        nullable = field.nullable_in(self.version)
        self.line(f"x = {target}")
        if field.kind == "array":
            self.line(f"n = {f'{self.null} if x is None else ' if nullable else ''}len(x){self.more}")
            self.length(field.kind)
            self.array(field.of, nullable, depth)
        elif field.kind == "records":
            self.records()
        else:
            self.text_or_bytes(field.kind, nullable)

    def length(self, kind: str) -> None:
        """Puts the pending numbers, then the length in `n`."""
        run, self.run = self.run, []
        if not self.flexible:
            self.line(self.put([*run, ("n", self.length_format(kind))]))
            return
        self.line(f"if n < 128: {self.put([*run, ('n', 'B')])}")
        if kind == "records":  # always longer than that, and the one length on the path of a fetch
            self.line(f"elif n < 16384: {self.put([*run, ('n & 127 | 128', 'B'), ('n >> 7', 'B')])}")
            three = [("n & 127 | 128", "B"), ("n >> 7 & 127 | 128", "B"), ("n >> 14", "B")]
            self.line(f"elif n < 2097152: {self.put([*run, *three])}")
        with self.block("else:"):
            if kind == "string":
                self.line(f"assert n <= {STRING_BYTES_MAX + 1}, 'a string of more than {STRING_BYTES_MAX} bytes'")
            if run:
                self.line(self.put(run))
            self.line("put_uvarint(out, n)")

    def text_or_bytes(self, kind: str, nullable: bool) -> None:
        content = "x.encode()" if kind == "string" else "x"
        if nullable:
            self.line(f"if x is None: x = b''; n = {self.null}")
        self.line(f"{'else: ' if nullable else ''}x = {content}; n = len(x){self.more}")
        self.length(kind)
        self.line("out += x")

    def records(self) -> None:
        self.line("inside = type(x) in kinds_of_bytes")
        self.line(f"n = {self.null} if x is None else (len(x) if inside else x.size){self.more}")
        self.length("records")
        self.line("if inside: out += x")
        self.line("elif x is not None: slices.append((len(out), x))")

    def array(self, of: Any, nullable: bool, depth: int) -> None:
        if isinstance(of, Field) and of.kind in FORMATS:
            code, short = FORMATS[of.kind], self.calls("pack", FORMATS[of.kind])
            self.line(f"if x: out += {short}[len(x)](*x) if len(x) < {SHORT_ARRAY} else put_numbers('{code}', x)")
            return
        if nullable:
            self.line("if x is None: x = ()")
        item = f"m{depth + 1}"
        with self.block(f"for {item} in x:"):
            self.variable(of, item, depth + 1) if isinstance(of, Field) else self.struct(of, item, depth + 1)
            self.flush()

    def tags(self, fields: list[Field], m: str, depth: int) -> None:
        if not fields:
            self.run.append(("0", "B"))
            return
        self.flush()
        defaults = [self.is_default(field, f"{m}.{field.name}") for field in fields]
        self.line(f"if {' and '.join(defaults)}: out.append(0)")
        with self.block("else:"):
            self.line(f"whole{depth} = out; tags{depth} = []")
            for field, default in zip(fields, defaults):
                with self.block(f"if not ({default}):"):
                    self.line("out = bytearray()")
                    self.field(field, f"{m}.{field.name}", depth)
                    self.flush()
                    self.line(f"tags{depth}.append(({field.tag}, out))")
            self.line(f"out = whole{depth}; put_tags(out, tags{depth})")

    def is_default(self, field: Field, target: str) -> str:
        default = default_of(field)
        if default is None:
            return f"{target} is None"
        if field.kind == "array":
            return f"{target} is not None and not {target}"
        known = self.constant(default)
        return f"({target} is {known} or {target} == {known})" if field.default is EMPTY else f"{target} == {known}"
