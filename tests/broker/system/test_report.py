"""The lines of the broker's log."""

import io
import json
import time

import pytest

from barnabas.broker.system.report import JsonReport, TextReport

NOW = 1_700_000_000.123


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def local(now: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))


def test_a_line_of_text_is_a_time_a_level_and_a_sentence() -> None:
    stream = io.StringIO()
    report = TextReport(stream, now=lambda: NOW)
    report.info("topic orders created (3 partitions)", topic="orders")
    report.warning("disk is getting full")
    report.error("log dir ./data goes offline")
    assert stream.getvalue().splitlines() == [
        f"{local(NOW)}.123 INFO  topic orders created (3 partitions)",
        f"{local(NOW)}.123 WARN  disk is getting full",
        f"{local(NOW)}.123 ERROR log dir ./data goes offline",
    ]


def test_a_line_of_json_holds_every_field() -> None:
    stream = io.StringIO()
    JsonReport(stream, now=lambda: NOW).info("topic orders created", topic="orders", partitions=3, id=b"\x01")
    assert json.loads(stream.getvalue()) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "info",
        "text": "topic orders created",
        "topic": "orders",
        "partitions": 3,
        "id": "b'\\x01'",
    }


def test_a_field_does_not_replace_the_text() -> None:
    stream = io.StringIO()
    JsonReport(stream, now=lambda: NOW).error("what happened", level="info", time=0)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["text"]) == ("error", "what happened")


@pytest.mark.parametrize(("level", "shown"), [("info", ["i", "w", "e"]), ("warning", ["w", "e"]), ("error", ["e"])])
def test_what_is_below_the_level_is_not_shown(level: str, shown: list[str]) -> None:
    stream = io.StringIO()
    report = TextReport(stream, level=level)
    report.info("i")
    report.warning("w")
    report.error("e")
    assert [line[-1] for line in stream.getvalue().splitlines()] == shown


def test_colour_is_for_terminals_and_for_trouble() -> None:
    stream = Terminal()
    report = TextReport(stream)
    report.info("fine")
    report.error("bad")
    fine, bad = stream.getvalue().splitlines()
    assert "\033" not in fine
    assert bad.startswith("\033[31m")
    assert bad.endswith("\033[0m")


def test_a_bug_comes_with_its_traceback() -> None:
    stream = io.StringIO()
    TextReport(stream).error("a bug: KeyError('x')", traceback="Traceback:\n  File x\nKeyError: 'x'\n")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR a bug: KeyError('x')")
    assert rest == ["    Traceback:", "      File x", "    KeyError: 'x'"]


@pytest.mark.parametrize("text", ["two\nlines", "a\r", "\033[2J", "bell\a"])
def test_what_a_client_sent_cannot_forge_a_line(text: str) -> None:
    stream = io.StringIO()
    TextReport(stream).warning(f"client {text} refused")
    assert stream.getvalue()[:-1].isprintable()


@pytest.mark.parametrize("report_class", [TextReport, JsonReport])
def test_nobody_listening_is_no_error(report_class: type[TextReport] | type[JsonReport]) -> None:
    closed = io.StringIO()
    closed.close()
    report_class(closed).info("hello")
    report_class(Broken()).info("hello")


class Writes(io.StringIO):
    """A stream that remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return len(text)


def test_each_line_of_one_broker_of_several_names_it_and_is_a_write_of_its_own() -> None:
    stream = Writes()
    TextReport(stream, node_id=2).error("a bug", traceback="Traceback:\n  File x\n")
    assert [piece[:3] for piece in stream.pieces] == ["2| ", "2| ", "2| "]
    assert all(piece.endswith("\n") and piece.count("\n") == 1 for piece in stream.pieces)


@pytest.mark.parametrize("report_class", [TextReport, JsonReport])
def test_a_line_of_one_broker_of_several_fits_into_a_pipe(report_class: type[TextReport] | type[JsonReport]) -> None:
    stream = Writes()
    report_class(stream, node_id=2).error("é" * 9_000 if report_class is TextReport else "e" * 9_000, key="k" * 9_000)
    (line,) = stream.pieces
    assert len(line.encode()) <= 4_096
    assert line.endswith("\n")


def test_json_of_one_broker_of_several_names_it() -> None:
    stream = Writes()
    JsonReport(stream, node_id=2).error("a bug", traceback="x" * 5_000 + "the end", count=3)
    line = json.loads(stream.pieces[0])
    assert (line["node"], line["text"], line["count"]) == (2, "a bug", 3)
    assert line["traceback"].endswith("the end")
