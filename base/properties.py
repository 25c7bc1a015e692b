"""Java's .properties format, which both Kafka's configuration files and its `meta.properties` are written in.

- A line that opens with # or ! is a comment; a backslash at a line's end continues it, without the indent of the next.
- The key ends at the first unescaped =, : or blank; the value is the rest of the line, trailing blanks included.
- The last of equal keys wins.
"""

from collections.abc import Iterator

from barnabas.protocol.errors import InvalidConfig

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Returns the entries of `text`. Raises InvalidConfig with the line that is malformed."""
    properties = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key, number)] = _unescape(value, number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines with their continuations joined, without comments and blank lines, each with the number of its
    first."""
    start, parts = 0, list[str]()
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = line.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        start = start if parts else number
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if continues else line)
        if not continues:
            yield start, "".join(parts)
            parts = []
    if joined := "".join(parts):
        yield start, joined


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return line[:end], value


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts, position = list[str](), 0
    while (backslash := text.find("\\", position)) >= 0 and backslash + 1 < len(text):
        escaped = text[backslash + 1]
        parts.append(text[position:backslash])
        if escaped == "u":
            parts.append(_unicode(text[backslash + 2 : backslash + 6], line_number))
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
        position = backslash + (6 if escaped == "u" else 2)
    parts.append(text[position:].removesuffix("\\"))
    return _join_surrogates("".join(parts))


def _unicode(digits: str, line_number: int) -> str:
    if len(digits) < 4 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise InvalidConfig(f"line {line_number}: \\u{digits} is not a character: \\u takes four hexadecimal digits")
    return chr(int(digits, 16))


def _join_surrogates(text: str) -> str:
    """Joins the two escapes with which Java writes a character beyond the first 65,536."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
