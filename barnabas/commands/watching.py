"""What is shown once, or with --watch again and again. A terminal is redrawn in place; anything else is appended to."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from barnabas.client.errors import Unreachable
from barnabas.options import Arguments, Option
from barnabas.output import iso_time, plural, print_json, say
from barnabas.protocol.named_tuple import NamedTuple

T = TypeVar("T")
_HOME, _ERASE_LINE, _ERASE_BELOW, _ERASE_ALL = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


class View(NamedTuple, Generic[T]):
    name: str
    """The field of the JSON that holds it, beside the time."""
    look: Callable[[], T]
    lines: Callable[[T], Iterable[str]]
    as_json: Callable[[T], Any]


def parse_interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0.1 <= seconds <= 86400:
        raise ValueError("must be a number of seconds, at least 0.1")
    return seconds


WATCH = Option(
    "-w --watch",
    "look again and again until Ctrl-C (default every 2 s)",
    "[SECONDS]",
    parse_interval,
    if_left_out=2.0,
)


def show(view: View[T], arguments: Arguments) -> None:
    """Shows it as `--watch` and `--json` say."""
    if arguments.watch is not None:
        try:
            _watch(view, arguments)
        except KeyboardInterrupt:
            pass
        return
    found = view.look()
    if arguments.json:
        print_json(view.as_json(found))
    else:
        print(*view.lines(found), sep="\n")


def _watch(view: View[T], arguments: Arguments) -> None:
    """Prints again and again. A failure is an error the first time; a broker that goes away later is waited for."""
    in_place = sys.stdout.isatty() and not arguments.json
    found = view.look()
    if in_place:
        sys.stdout.write(_ERASE_ALL)
    _show(view, found, arguments, in_place)
    while True:
        time.sleep(arguments.watch)
        try:
            _show(view, view.look(), arguments, in_place)
        except Unreachable as error:
            say(f"barnabas: {error}; trying again")


def _show(view: View[T], found: T, arguments: Arguments, in_place: bool) -> None:
    moment = iso_time(time.time_ns() // 1_000_000)
    if arguments.json:
        print_json({"time": moment, view.name: view.as_json(found)})
    elif in_place:
        sys.stdout.write(screen([moment, "", *view.lines(found)]))
    else:
        print(moment, *view.lines(found), "", sep="\n")
    sys.stdout.flush()


def screen(lines: list[str]) -> str:
    """Returns the text that draws the lines from the top of the terminal, over old ones, and counts the rest."""
    from shutil import get_terminal_size

    height = get_terminal_size().lines - 1
    if len(lines) > height:
        lines = [*lines[: height - 1], f"... and {plural(len(lines) - height + 1, 'line')} more"]
    return _HOME + "".join(f"{line}{_ERASE_LINE}\n" for line in lines) + _ERASE_BELOW
