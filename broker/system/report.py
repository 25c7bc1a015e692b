"""The broker's log: one line per event, for people or for programs.

    2026-11-16 05:00:00.123 INFO  topic orders created (3 partitions)
    {"time": "2026-11-16T05:00:00.123Z", "level": "info", "text": "topic orders created", "topic": "orders"}

    2| 2026-11-16 05:00:00.123 INFO  topic orders created (3 partitions)

Rules:
- A line is one write, so that threads do not interleave, and it is flushed.
- Where several brokers write to one stream, each line names its node. It is cut to what a pipe takes in one piece, so
  that processes do not interleave either.
- Reporting never raises: if the stream is closed, nobody listens, and the broker goes on.
- Text shows local time and a sentence, in colour only on a terminal; JSON shows UTC and every field. A `traceback` is
  our bug: text shows it too, indented below its line.
"""

import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

LEVELS = ("info", "warning", "error")
_NAMES = {"info": "INFO ", "warning": "WARN ", "error": "ERROR"}
_COLOURS = {"warning": "\033[33m", "error": "\033[31m"}
_RESET = "\033[0m"
_WRITE_MAX = 4_096
"""The bytes that a pipe takes in one piece, as POSIX has it on every system that we know."""
_SHARED_FIELD_MAX = 1_000


class _Report:
    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        level: str = "info",
        now: Callable[[], float] = time.time,
        node_id: int | None = None,
    ) -> None:
        """Takes `node_id` where brokers of several processes share the stream."""
        assert level in LEVELS, f"no level is called {level}"
        self._node_id = node_id
        self._stream = sys.stderr if stream is None else stream
        self._shown = frozenset(LEVELS[LEVELS.index(level) :])
        self._now = now

    def info(self, text: str, **fields: object) -> None:
        self._report("info", text, fields)

    def warning(self, text: str, **fields: object) -> None:
        self._report("warning", text, fields)

    def error(self, text: str, **fields: object) -> None:
        self._report("error", text, fields)

    def _report(self, level: str, text: str, fields: dict[str, object]) -> None:
        if level not in self._shown:
            return
        try:
            for piece in self._pieces(level, text, fields):
                self._stream.write(piece)
                self._stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # the stream is closed, or there never was one

    def _pieces(self, level: str, text: str, fields: dict[str, object]) -> Iterable[str]:
        """Returns what is written, each piece at once."""
        return (self._line(level, text, fields),)

    def _line(self, level: str, text: str, fields: dict[str, object]) -> str:
        raise NotImplementedError


class TextReport(_Report):
    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        level: str = "info",
        now: Callable[[], float] = time.time,
        node_id: int | None = None,
    ) -> None:
        super().__init__(stream, level=level, now=now, node_id=node_id)
        self._coloured = _is_terminal(self._stream)

    def _pieces(self, level: str, text: str, fields: dict[str, object]) -> Iterable[str]:
        whole = self._line(level, text, fields)
        if self._node_id is None:
            return (whole,)
        return [_cut(f"{self._node_id}| {line}") + "\n" for line in whole.splitlines()]

    def _line(self, level: str, text: str, fields: dict[str, object]) -> str:
        now = self._now()
        date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        line = f"{date}.{int(now * 1000) % 1000:03} {_NAMES[level]} {_one_line(text)}"
        if self._coloured and level in _COLOURS:
            line = f"{_COLOURS[level]}{line}{_RESET}"
        return "\n".join([line, *_indented(fields.get("traceback")), ""])


class JsonReport(_Report):
    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        level: str = "info",
        now: Callable[[], float] = time.time,
        node_id: int | None = None,
    ) -> None:
        from json import JSONEncoder

        super().__init__(stream, level=level, now=now, node_id=node_id)
        self._encode = JSONEncoder(default=str).encode

    def _line(self, level: str, text: str, fields: dict[str, object]) -> str:
        now = self._now()
        date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        about: dict[str, object] = {"time": f"{date}.{int(now * 1000) % 1000:03}Z", "level": level, "text": text}
        if self._node_id is not None:
            about = {**about, "text": text[:_SHARED_FIELD_MAX], "node": self._node_id}
            fields = {name: _end_of(value) for name, value in fields.items()}
        return self._encode(about | {name: value for name, value in fields.items() if name not in about}) + "\n"


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _end_of(value: object) -> object:
    """Returns a value that leaves room for others; the end of a traceback says the most."""
    return value[-_SHARED_FIELD_MAX:] if isinstance(value, str) else value


def _cut(line: str) -> str:
    data = line.encode(errors="backslashreplace")
    return line if len(data) < _WRITE_MAX else data[: _WRITE_MAX - 8].decode(errors="ignore") + " …"


def _indented(traceback: object) -> list[str]:
    return [f"    {_one_line(line)}" for line in str(traceback).splitlines()] if traceback else []


def _one_line(text: str) -> str:
    """Escapes what is not printable: text from a client must not forge a line or drive the terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
