"""Command lines: declared once per command, parsed here. argparse would cost a command 7 ms before it does anything.

Rules:
- `--name value`, `--name=value`, `-n value`, `-nvalue`; `--` ends the options. A value may start with a dash.
- A value in brackets, `[SECONDS]`, may be left out: the next word is it only if it can be.
- An option's destination is its first long name; a repeated one collects a list.
- Whatever is wrong raises `UsageError`: one line, and the nearest name that would have been right.
"""

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.protocol.named_tuple import NamedTuple


class UsageError(Exception):
    """The command line makes no sense: exit code 2."""


class Failure(Exception):
    """What the user asked for cannot be done, for a reason they can mend: one line, and an exit code."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def line(self) -> str:
        return " ".join(f"{self}; {self.hint}".split()) if self.hint else " ".join(str(self).split())


class Option(NamedTuple):
    names: str
    """All names, as in `-k --key-separator`."""
    help: str
    value: str = ""
    """The name of the value in the help, in brackets if it may be left out; without one the option is a switch."""
    parse: Callable[[str], Any] = str
    """Turns the text into the value; raises ValueError with what the text must be."""
    default: Any = None
    repeated: bool = False
    required: bool = False
    if_left_out: Any = None
    """The value of an option that stands without the one in brackets."""

    @property
    def destination(self) -> str:
        return next(name for name in self.names.split() if name.startswith("--"))[2:].replace("-", "_")

    @property
    def usage(self) -> str:
        return f"{self.names.replace(' ', ', ')} {self.value}".rstrip() + ("..." if self.repeated else "")


class Arguments:
    """The values by destination."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no option is called {name}")


class Command(NamedTuple):
    name: str
    summary: str
    run: Callable[[Any], int]
    options: tuple[Option, ...] = ()
    positionals: str = ""
    """`TOPIC`, `NAME...` (one or more) or `[NAME...]` (any number); several are separated by spaces."""
    examples: tuple[str, ...] = ()

    def parse(self, words: Sequence[str]) -> Arguments:
        values: dict[str, Any] = {
            option.destination: [] if option.repeated else option.default for option in self.options
        }
        rest = self._parse_options(list(words), values)
        for option in self.options:
            if option.required and values[option.destination] in (None, []):
                raise UsageError(f"{option.usage} is missing")
        self._parse_positionals(rest, values)
        return Arguments(values)

    def _parse_options(self, words: list[str], values: dict[str, Any]) -> list[str]:
        by_name = {name: option for option in self.options for name in option.names.split()}
        rest: list[str] = []
        while words:
            word = words.pop(0)
            if word == "--":
                return rest + words
            if not word.startswith("-") or word == "-":
                rest.append(word)
                continue
            name, text = _split(word)
            if (option := by_name.get(name)) is None:
                raise UsageError(f"unknown option {name}{nearest(name, by_name)}")
            if option.value.startswith("[") and text is None and not (words and _can_be(option, words[0])):
                values[option.destination] = option.if_left_out
                continue
            if option.value and text is None:
                if not words:
                    raise UsageError(f"{name} needs a value: {name} {option.value}")
                text = words.pop(0)
            _store(option, name, text, values)
        return rest

    def _parse_positionals(self, words: list[str], values: dict[str, Any]) -> None:
        for positional in self.positionals.split():
            destination = positional.strip("[.]").lower()
            if positional.endswith(("...", "...]")):
                if not words and not positional.startswith("["):
                    raise UsageError(f"{positional} is missing")
                values[destination], words = words, []
            elif words:
                values[destination] = words.pop(0)
            elif positional.startswith("["):
                values[destination] = None
            else:
                raise UsageError(f"{positional} is missing")
        if words:
            raise UsageError(f"unexpected {words[0]!r}")

    def help(self) -> str:
        lines = [f"{self.summary}", "", f"usage: barnabas {self.name} {self.positionals} [options]".replace("  ", " ")]
        if self.options:
            lines += ["", "options:", *_columns([(option.usage, option.help) for option in self.options])]
        if self.examples:
            lines += ["", "examples:", *(f"  {example}" for example in self.examples)]
        return "\n".join(lines) + "\n"


def _split(word: str) -> tuple[str, str | None]:
    if not word.startswith("--"):
        return word[:2], word[2:] or None
    name, equals, text = word.partition("=")
    return name, text if equals else None


def _can_be(option: Option, text: str) -> bool:
    try:
        option.parse(text)
    except ValueError:
        return False
    return True


def _store(option: Option, name: str, text: str | None, values: dict[str, Any]) -> None:
    if not option.value:
        if text is not None:
            raise UsageError(f"{name} takes no value")
        values[option.destination] = True
        return
    try:
        value = option.parse(text or "")
    except ValueError as error:
        raise UsageError(f"{name} {text}: {error}") from None
    if option.repeated:
        values[option.destination].append(value)
    else:
        values[option.destination] = value


def _columns(rows: list[tuple[str, str]], width: int = 30) -> list[str]:
    """Formats two columns; a long left one has a line of its own."""
    lines = []
    for left, right in rows:
        lines += [f"  {left:<{width}}{right}"] if len(left) < width else [f"  {left}", f"  {'':<{width}}{right}"]
    return lines


def nearest(name: str, known: Any) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]}?)" if matches else ""


# ---- values


def whole_number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("must be a whole number of at least 0")
    return int(text)


def positive_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("must be a whole number of at least 1")
    return int(text)


def port_number(text: str) -> int:
    if (number := whole_number(text)) > 65535:
        raise ValueError("must be a port, 0 to 65535")
    return number


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError("must be key=value")
    return key.strip(), value


def word(text: str) -> str:
    if text.split() != [text] or not text.isprintable():
        raise ValueError("must be one word")
    return text


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse
