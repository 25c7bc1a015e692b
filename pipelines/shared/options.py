"""The options that all jobs share, and what they mean for Spark's Kafka source and sink."""

import argparse
import difflib
import json
import os
import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

# The same as for every command that talks to a cluster.
BOOTSTRAP_VARIABLE = "BARNABAS_BOOTSTRAP_SERVERS"
BOOTSTRAP_SERVERS = "127.0.0.1:9092"

CHECKPOINT = "where the job notes its position, so that the next run continues there"

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong in one line, with the option that is nearest to an unknown one."""

    def format_help(self) -> str:
        """Names what must be given in the usage, and lists all options below it."""
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
    """Returns the parser of a job. With `own_position` it keeps its position in its output, not in a checkpoint."""
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
    add_client_settings(group, "--kafka", "a setting of Kafka's clients, for source, sink and admin")
    group.add_argument("--master", default="local[*]", help="where Spark runs (default: %(default)s, this machine)")
    add_settings(group, "--conf", "a setting of Spark")
    group.add_argument(
        "--jars-folder",
        metavar="DIR",
        help="the folder of the connector's jars (default: download them once, and keep)",
    )
    group.add_argument("--log-file", metavar="FILE", help="write Spark's own output here (default: a new file per run)")
    group.add_argument("--dry-run", action="store_true", help="check everything, print the plan, change nothing")


def _add_streaming(group: Any, every: str, own_position: bool) -> None:
    remembers = "where Spark keeps its notes of a run (default: beside the output)" if own_position else CHECKPOINT
    group.add_argument("--checkpoint", required=not own_position, metavar="DIR", help=remembers)
    when = group.add_mutually_exclusive_group()
    when.add_argument("--once", action="store_true", help="read what the topics hold now, then end")
    add_duration(when, "--every", every, "run a batch this often")
    group.add_argument(
        "--starting-offsets",
        type=starting_offsets,
        default="earliest",
        metavar="earliest|latest|JSON",
        help=f"where to begin with a new {'topic' if own_position else 'checkpoint'} (default: %(default)s)",
    )
    group.add_argument(
        "--max-offsets-per-trigger", type=positive_number, metavar="N", help="read at most this many records per batch"
    )
    add_fail_on_data_loss(group, "records were deleted before the job read them")


def add_topics(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--topic", action=CollectNames, default=[], metavar="NAME,…", help="a topic to read (repeatable)"
    )
    which.add_argument(
        "--topic-pattern", type=java_pattern, metavar="REGEX", help="read every topic whose whole name matches"
    )


# ---- options that several jobs declare


def add_duration(group: Any, name: str, default: str, about: str) -> None:
    text = f"{about} (default: {default})"
    group.add_argument(name, type=duration, default=duration(default), metavar="DURATION", help=text)


def add_settings(group: Any, name: str, about: str, metavar: str = "KEY=VALUE") -> None:
    group.add_argument(name, action=CollectSettings, default={}, metavar=metavar, help=f"{about} (repeatable)")


def add_client_settings(group: Any, name: str, about: str) -> None:
    """Adds the option and its twin that reads a file, as --kafka and --kafka-config."""
    add_settings(group, name, about)
    group.add_argument(
        f"{name}-config",
        action=ReadSettings,
        dest=name.removeprefix("--").replace("-", "_"),
        metavar="FILE",
        help="such settings from a properties file: for secrets, which a command line shows to everybody",
    )


def add_fail_on_data_loss(group: Any, loss: str) -> None:
    text = f"stop if {loss} (default: true)"
    group.add_argument("--fail-on-data-loss", type=truth, default=True, metavar="true|false", help=text)


class CollectSettings(argparse.Action):
    """Collects KEY=VALUE, repeatable, in a dict."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        key, equals, value = values.partition("=")
        if not equals or not key.strip():
            raise argparse.ArgumentError(self, f"{values!r} is not a setting: write KEY=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), key.strip(): value})


class ReadSettings(argparse.Action):
    """Reads a properties file into the same dict; what comes later on the command line wins."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        try:
            found = properties(Path(values).read_text())
        except OSError as error:
            raise argparse.ArgumentError(self, f"{values}: {error.strerror}") from None
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **found})


def properties(text: str) -> dict[str, str]:
    """Parses `key=value` lines; a backslash at the end of a line joins the next one to it, as long JAAS lines need."""
    lines = (line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines())
    pairs = [re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in lines if line[:1] not in ("", "#", "!")]
    return {pair[0]: pair[1] if len(pair) == 2 else "" for pair in pairs}


class CollectNames(argparse.Action):
    """Collects names, repeatable, commas allowed; each name once."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        names = [name.strip() for name in values.split(",")]
        if not all(names):
            raise argparse.ArgumentError(self, f"{values!r} contains an empty name: remove a comma")
        setattr(namespace, self.dest, list(dict.fromkeys([*getattr(namespace, self.dest), *names])))


# ---- values


def duration(text: str) -> timedelta:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text.strip())
    if matched is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: write 250ms, 10s, 5m, 1h or 2d")
    return timedelta(**{_UNITS[matched[2]]: float(matched[1])})


def moment(text: str) -> datetime:
    """Parses a time in ISO 8601, in UTC unless it names an offset."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 2025-11-16 or 2025-11-16T14:30:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


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
        raise argparse.ArgumentTypeError("the pattern is empty: write one that matches names of topics")
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

QUICK_READ = {
    # Spark reads offsets that are there already, and asks for a partition's ends when its consumer has sent the next
    # fetch: a broker answers in order, so every task would wait the half second that a fetch of nothing takes.
    "kafka.fetch.max.wait.ms": "20",
    # Spark asks for a partition's ends between two polls: polls of 500 records, Kafka's default, make reading a third
    # slower.
    "kafka.max.poll.records": "5000",
}
# Aborted records do not count. Kafka's own default for consumers is another.
COMMITTED = {"kafka.isolation.level": "read_committed"}


def kafka_settings(options: argparse.Namespace) -> dict[str, str]:
    """Returns options of Spark's Kafka source and sink: how to reach the cluster, and which of its records to read."""
    given = client_settings(options.kafka)
    return {"kafka.bootstrap.servers": options.bootstrap_servers, **(COMMITTED if _is_stream(options) else {}), **given}


def client_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Returns settings of Kafka's clients under the names that Spark has for them; users may write either name."""
    return {f"kafka.{key.removeprefix('kafka.')}": value for key, value in given.items()}


def bootstrap_servers(options: argparse.Namespace) -> dict[str, str]:
    """Returns where the cluster is, by the option that says so."""
    return {"--bootstrap-servers": kafka_settings(options)["kafka.bootstrap.servers"]}


def source_settings(options: argparse.Namespace) -> dict[str, str]:
    """Returns options of Spark's Kafka source for the topics and the range that the user named."""
    settings = {**QUICK_READ, **kafka_settings(options), "includeHeaders": "true"}
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
    """Says whether the job follows topics; an audit reads them once, and reads everything."""
    return hasattr(options, "every")
