"""The options of rollup, and what they ask for."""

import argparse
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from barnabas.pipelines.rollups.events import TIME_FORMATS, EventField, EventFormat, event_field
from barnabas.pipelines.rollups.windows import Aggregates, Windows, column_names
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure

ABOUT = "Rolls up JSON events into event-time windows: counts, sums, extremes, quantiles and distinct values per key."


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser("rollup", ABOUT, streaming=True)
    common.add_topics(parser)
    _add_events(
        parser.add_argument_group(
            "events", "Write a field of an inner object as user.id; id=user.id gives its column a name."
        )
    )
    _add_windows(parser.add_argument_group("windows"))
    _add_outputs(parser.add_argument_group("outputs"))
    return parser


def _add_events(group: Any) -> None:
    group.add_argument("--time-field", required=True, metavar="FIELD", help="when the event happened")
    group.add_argument(
        "--time-format",
        choices=TIME_FORMATS,
        default="auto",
        help="auto recognizes seconds and milliseconds since 1970, and ISO 8601 (default: %(default)s)",
    )
    about = "an event whose time is further than this after its record's timestamp is a dead letter"
    common.add_duration(group, "--max-ahead", "1d", about)
    fields = {
        "--key-field": "write a row for each value of this field",
        "--value-field": "write count, sum, min, max and quantiles of this field",
        "--distinct-field": "write about how many different values this field has",
    }
    for option, text in fields.items():
        group.add_argument(option, action="append", default=[], metavar="FIELD,…", help=f"{text} (repeatable)")
    group.add_argument(
        "--quantiles", type=_quantiles, default=(), metavar="0.5,0.99", help="quantiles of each value field"
    )
    group.add_argument(
        "--quantile-accuracy",
        type=common.positive_number,
        default=1000,
        metavar="N",
        help="a quantile is off by at most 1/N of the values (default: %(default)s); a larger N needs more memory",
    )


def _add_windows(group: Any) -> None:
    kind = group.add_mutually_exclusive_group(required=True)
    kind.add_argument("--window", type=common.duration, metavar="DURATION", help="windows of this length")
    kind.add_argument(
        "--session",
        type=common.duration,
        metavar="DURATION",
        help="windows that end when a key has had no event for this long",
    )
    group.add_argument(
        "--slide", type=common.duration, metavar="DURATION", help="begin a window this often (with --window)"
    )
    about = "write a window when an event has arrived that is this much later than the end of the window"
    common.add_duration(group, "--watermark", "30s", about)


def _add_outputs(group: Any) -> None:
    group.add_argument(
        "--output", metavar="DIR", help="write each window exactly once, to Parquet files in this folder"
    )
    group.add_argument(
        "--output-topic", metavar="NAME", help="write each window at least once, as JSON with a key that names it"
    )
    group.add_argument("--dead-letter-topic", metavar="NAME", help="send records that cannot be used to this topic")
    group.add_argument("--dead-letter-late", action="store_true", help="send late records to the dead letters, too")


def _quantiles(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(each) for each in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers from 0 to 1, as in 0.5,0.95,0.99")
    return numbers


@dataclass(frozen=True)
class Rollup:
    """What the options ask for, checked."""

    form: EventFormat
    windows: Windows
    aggregates: Aggregates
    columns: list[str]
    fixed: dict[str, str]
    """The options that the state in a checkpoint depends on, and their values."""


def rollup_of(options: argparse.Namespace) -> Rollup:
    _check(options)
    form = EventFormat(
        time=event_field(options.time_field),
        time_format=options.time_format,
        keys=_fields(options.key_field),
        numbers=_fields(options.value_field),
        distinct=_fields(options.distinct_field),
        max_ahead=options.max_ahead,
    )
    form.check()
    if options.session is not None and not form.keys:
        raise Failure("--session needs a --key-field: each session belongs to a key")
    windows = Windows(length=options.window, slide=options.slide, gap=options.session)
    aggregates = Aggregates(quantiles=options.quantiles, quantile_accuracy=options.quantile_accuracy)
    return Rollup(form, windows, aggregates, column_names(form, aggregates), _fixed(options))


def _check(options: argparse.Namespace) -> None:
    if options.output is None and options.output_topic is None:
        raise Failure("the job has no output: give --output, --output-topic or both")
    if options.slide is not None and (options.window is None or not timedelta(0) < options.slide <= options.window):
        raise Failure("--slide needs a --window that is at least as long: give one")
    for name in ("window", "session"):
        if getattr(options, name) is not None and getattr(options, name) < timedelta(milliseconds=1):
            raise Failure(f"--{name} must be at least 1ms")
    if options.dead_letter_late and options.dead_letter_topic is None:
        raise Failure("--dead-letter-late needs a topic to write to: give --dead-letter-topic")
    written = [name for name in (options.output_topic, options.dead_letter_topic) if name is not None]
    if len({*written, *options.topic}) < len(written) + len(options.topic):
        raise Failure("--topic, --output-topic and --dead-letter-topic must be different topics")


def _fields(given: list[str]) -> tuple[EventField, ...]:
    return tuple(event_field(each.strip()) for text in given for each in text.split(","))


def _fixed(options: argparse.Namespace) -> dict[str, str]:
    names = (
        *("topic", "topic_pattern", "time_field", "time_format", "max_ahead", "key_field", "value_field"),
        *("distinct_field", "quantiles", "quantile_accuracy", "window", "slide", "session"),
    )

    def text(value: Any) -> str:
        if isinstance(value, timedelta):
            return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        return ",".join(str(each) for each in value) if isinstance(value, list | tuple) else str(value)

    given = {name: getattr(options, name) for name in names}
    return {f"--{name.replace('_', '-')}": text(value) for name, value in given.items() if value not in (None, [], ())}
