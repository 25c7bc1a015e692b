"""The options of audit."""

import argparse
import os
from typing import Any

from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure

ABOUT = "Checks every record of a topic, or of a topic and its copy, and reports what is wrong (exit code 3)."

CHECKS = ("gaps", "duplicates", "order", "keys")


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser("audit", ABOUT, streaming=False)
    parser.add_argument("--topic", required=True, metavar="NAME", help="the topic to check")
    parser.add_argument(
        "--archive", metavar="DIR", help="check what an archive holds of the topic, not the topic itself"
    )
    _add_copy(parser.add_argument_group("copy", "Compare the topic with a copy of it."))
    _add_range(parser.add_argument_group("range", "Check a part (default: everything)."))
    _add_checks(parser.add_argument_group("checks"))
    _add_outputs(parser.add_argument_group("outputs"))
    return parser


def _add_copy(group: Any) -> None:
    group.add_argument("--copy-topic", metavar="NAME", help="a topic that should hold the same records")
    group.add_argument(
        "--copy-bootstrap-servers", metavar="HOST:PORT,…", help="the cluster of the copy (default: the same cluster)"
    )
    group.add_argument("--copy-archive", metavar="DIR", help="an archive that should hold the same records")
    group.add_argument(
        "--match",
        choices=("auto", "offsets", "content"),
        default="auto",
        help="match records at the same offset, or the nth of the same key and value "
        "(default: %(default)s, whichever finds fewer problems)",
    )


def _add_range(group: Any) -> None:
    for name, default, verb in (("starting", "earliest", "begin"), ("ending", "latest", "end")):
        group.add_argument(
            f"--{name}-offsets",
            type=common.starting_offsets,
            default=default,
            metavar=f"{default}|JSON",
            help=f"where to {verb}; a partition that is not named is checked as a whole",
        )
    group.add_argument(
        "--since",
        type=moment,
        metavar="TIME",
        help="begin at the first record of this time or later (ISO 8601 or milliseconds)",
    )
    group.add_argument("--until", type=moment, metavar="TIME", help="end before the first record of this time or later")


def _add_checks(group: Any) -> None:
    group.add_argument(
        "--checks", type=_checks, default=CHECKS, metavar=",".join(CHECKS), help="run only these checks (default: all)"
    )
    group.add_argument(
        "--strict", action="store_true", help="report an offset without a record even if a transaction explains it"
    )
    identity = group.add_mutually_exclusive_group()
    identity.add_argument("--id-field", metavar="FIELD", help="the field of a JSON value that identifies a record")
    identity.add_argument("--id-header", metavar="NAME", help="the header that identifies a record")
    group.add_argument(
        "--sequence-field", metavar="FIELD", help="a number in a JSON value that rises with each record of a key"
    )
    common.add_duration(group, "--tolerance", "0s", "how far the timestamps of a key may go back")


def _add_outputs(group: Any) -> None:
    group.add_argument("--json", metavar="FILE", help="write everything that was found, for programs")
    group.add_argument("--html", metavar="FILE", help="write a page with plots, in one file")
    group.add_argument(
        "--top", type=common.positive_number, default=10, metavar="N", help="list this many keys (default: 10)"
    )


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in CHECKS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a check: choose from {', '.join(CHECKS)}")
    return names


def moment(text: str) -> int:
    """Returns milliseconds since 1970. The text is that number, or a time in ISO 8601."""
    return int(text) if text.isdecimal() else round(common.moment(text).timestamp() * 1000)


def check_options(options: argparse.Namespace) -> None:
    for path in (options.json, options.html):
        if path is not None and not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise Failure(f"{path} cannot be written: name a folder that exists and that you may write to")
    if options.copy_topic is not None and options.copy_archive is not None:
        raise Failure("--copy-topic and --copy-archive exclude each other: give one of them")
    if options.copy_bootstrap_servers is not None and options.copy_topic is None:
        options.copy_topic = options.topic
    if options.match == "content" and is_part(options):
        raise Failure("--match content compares whole topics only: omit it, or omit the range")


def has_copy(options: argparse.Namespace) -> bool:
    return options.copy_topic is not None or options.copy_archive is not None


def is_part(options: argparse.Namespace) -> bool:
    offsets = (options.starting_offsets, options.ending_offsets) != ("earliest", "latest")
    return offsets or options.since is not None or options.until is not None
