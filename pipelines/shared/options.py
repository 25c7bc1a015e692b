"""The options that all jobs share, and what they mean for Spark's Kafka source and sink."""

import argparse
import difflib
import json
import os
import re
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

# As of every command that talks to a cluster.
BOOTSTRAP_VARIABLE = "BARNABAS_BOOTSTRAP_SERVERS"
BOOTSTRAP_SERVERS = "127.0.0.1:9092"

CHECKPOINT = "where the job writes down how far it is, for the next run to go on there"

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class _Parser(argparse.ArgumentParser):
    """Whatever is wrong is one line, with the nearest option that would have been right."""

    def format_help(self) -> str:
        """The usage names what must be given; everything that may be is listed below it."""
        either = [group for group in self._mutually_exclusive_groups if group.required]
        words = ["(" + " | ".join(map(_usage, group._group_actions)) + ")" for group in either]
        words = [_usage(action) for action in self._actions if action.required] + words
        lines = textwrap.wrap(
            " ".join([self.prog, *words, "[options]"]), 100, subsequent_indent=" " * 11, break_on_hyphens=False
        )
        self.usage = "\n".join(lines).replace("%", "%%")
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (-[^ =]+)", message)
        matches = difflib.get_close_matches(unknown[1], self._option_string_actions, n=1) if unknown else []
        hint = f" (did you mean {matches[0]}?)" if matches else ""
        self.exit(2, f"{self.prog}: {message}{hint}; see `{self.prog} --help`\n")


def _usage(action: argparse.Action) -> str:
    return f"{action.option_strings[-1]} {action.metavar or action.dest.upper()}"


def parser(
    name: str,
    about: str,
    *,
    streaming: bool,
    every: str = "10s",
    own_position: bool = False,
) -> argparse.ArgumentParser:
    """`own_position`: how far the job has read is part of its output, and not of Spark's checkpoint."""
    made = _Parser(prog=f"barnabas pipeline {name}", description=about, allow_abbrev=False)
    made.set_defaults(job=name)
    _add_common(made.add_argument_group("Kafka and Spark"))
    if streaming:
        _add_streaming(made.add_argument_group("streaming"), every, own_position)
    return made


def _add_common(group: Any) -> None:
    group.add_argument(
        "-b",
        "--bootstrap-servers",
        default=os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_SERVERS,
        metavar="HOST:PORT,…",
        help=f"brokers to ask first (default: ${BOOTSTRAP_VARIABLE}, or {BOOTSTRAP_SERVERS})",
    )
    group.add_argument(
        "--kafka",
        action=CollectSettings,
        default={},
        metavar="KEY=VALUE",
        help="a setting of Kafka's clients, for source, sink and admin (repeatable)",
    )
    group.add_argument(
        "--kafka-config",
        action=ReadSettings,
        dest="kafka",
        metavar="FILE",
        help="such settings from a properties file: for secrets, which a command line shows to everybody",
    )
    group.add_argument("--master", default="local[*]", help="where Spark runs (default: %(default)s, this machine)")
    group.add_argument(
        "--conf", action=CollectSettings, default={}, metavar="KEY=VALUE", help="a setting of Spark (repeatable)"
    )
    group.add_argument(
        "--jars-folder", metavar="DIR", help="where the connector's jars lie already (default: fetched once, cached)"
    )
    group.add_argument("--log-file", metavar="FILE", help="where Spark's own output goes (default: a new file per run)")
    group.add_argument("--dry-run", action="store_true", help="check everything, print the plan, change nothing")


def _add_streaming(group: Any, every: str, own_position: bool) -> None:
    remembers = "where Spark's notes of a run go (default: beside the output)" if own_position else CHECKPOINT
    group.add_argument("--checkpoint", required=not own_position, metavar="DIR", help=remembers)
    when = group.add_mutually_exclusive_group()
    when.add_argument("--once", action="store_true", help="read what is there now, then end")
    when.add_argument(
        "--every",
        type=duration,
        default=duration(every),
        metavar="DURATION",
        help=f"a batch every … (default: {every})",
    )
    group.add_argument(
        "--starting-offsets",
        type=starting_offsets,
        default="earliest",
        metavar="earliest|latest|JSON",
        help=f"where a new {'topic' if own_position else 'checkpoint'} begins (default: %(default)s)",
    )
    group.add_argument(
        "--max-offsets-per-trigger", type=positive_number, metavar="N", help="at most so many records per batch"
    )
    group.add_argument(
        "--fail-on-data-loss",
        type=truth,
        default=True,
        metavar="true|false",
        help="stop if records were gone before they were read (default: true)",
    )


def add_topics(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--topic", action=CollectNames, default=[], metavar="NAME,…", help="a topic to read (repeatable)"
    )
    which.add_argument(
        "--topic-pattern", type=java_pattern, metavar="REGEX", help="read every topic whose whole name matches"
    )


class CollectSettings(argparse.Action):
    """KEY=VALUE, repeatable, as a dict."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        key, equals, value = values.partition("=")
        if not equals or not key.strip():
            raise argparse.ArgumentError(self, f"{values!r} must be KEY=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), key.strip(): value})


class ReadSettings(argparse.Action):
    """The settings in a file of Kafka's kind, into the same dict; what stands later on the command line wins."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        try:
            found = properties(Path(values).read_text())
        except OSError as error:
            raise argparse.ArgumentError(self, f"{values}: {error.strerror}") from None
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **found})


def properties(text: str) -> dict[str, str]:
    """`key=value` lines; a backslash at the end of one joins the next to it, as long JAAS lines need it."""
    lines = (line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines())
    pairs = [re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in lines if line[:1] not in ("", "#", "!")]
    return {pair[0]: pair[1] if len(pair) == 2 else "" for pair in pairs}


class CollectNames(argparse.Action):
    """Repeatable, commas allowed; each name once."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        names = [name.strip() for name in values.split(",")]
        if not all(names):
            raise argparse.ArgumentError(self, f"{values!r} holds an empty name")
        setattr(namespace, self.dest, list(dict.fromkeys([*getattr(namespace, self.dest), *names])))


# ---- values


def duration(text: str) -> timedelta:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text.strip())
    if matched is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: write 250ms, 10s, 5m, 1h or 2d")
    return timedelta(**{_UNITS[matched[2]]: float(matched[1])})


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} must be true or false")
    return text.lower() == "true"


def positive_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def java_pattern(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("an empty pattern matches nothing")
    return text


def starting_offsets(text: str) -> str:
    if text in ("earliest", "latest") or _are_offsets(text):
        return text
    example = '{"orders": {"0": 23, "1": -2}}'
    raise argparse.ArgumentTypeError(
        f"{text!r} must be earliest, latest or JSON such as {example} (-2: earliest, -1: latest)"
    )


def _are_offsets(text: str) -> bool:
    try:
        by_topic = json.loads(text)
        pairs = [pair for partitions in by_topic.values() for pair in partitions.items()]
    except (ValueError, AttributeError):
        return False
    return bool(pairs) and all(number.isdecimal() and type(offset) is int for number, offset in pairs)


# ---- for Spark

# Spark reads offsets that are there already, and asks for a partition's ends when its consumer has sent the next fetch:
# a broker answers in order, so every task would wait the half second that a fetch of nothing takes.
NO_WAIT = {"kafka.fetch.max.wait.ms": "20"}
# What was aborted was never said. Kafka's own default for consumers is another.
COMMITTED = {"kafka.isolation.level": "read_committed"}


def kafka_settings(options: argparse.Namespace) -> dict[str, str]:
    """Options of Spark's Kafka source and sink that say how to reach the cluster, and which of its records to read."""
    given = {f"kafka.{key.removeprefix('kafka.')}": value for key, value in options.kafka.items()}
    return {"kafka.bootstrap.servers": options.bootstrap_servers, **(COMMITTED if _is_stream(options) else {}), **given}


def bootstrap_servers(options: argparse.Namespace) -> dict[str, str]:
    """Where the cluster is, by the option that says so."""
    return {"--bootstrap-servers": kafka_settings(options)["kafka.bootstrap.servers"]}


def source_settings(options: argparse.Namespace) -> dict[str, str]:
    """Options of Spark's Kafka source for the topics and the range that the user named."""
    settings = {**NO_WAIT, **kafka_settings(options), "includeHeaders": "true"}
    if options.topic_pattern is not None:
        settings["subscribePattern"] = options.topic_pattern
    else:
        settings["subscribe"] = ",".join(options.topic)
    if _is_stream(options):
        settings["startingOffsets"] = options.starting_offsets
        settings["failOnDataLoss"] = str(options.fail_on_data_loss).lower()
        if options.max_offsets_per_trigger is not None:
            settings["maxOffsetsPerTrigger"] = str(options.max_offsets_per_trigger)
    return settings


def _is_stream(options: argparse.Namespace) -> bool:
    """It follows topics; an audit, which reads them once, looks at everything that is there."""
    return hasattr(options, "every")
