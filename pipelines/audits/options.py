"""The options of audit."""

import argparse
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure

ABOUT = "Look at every record of a topic, or of a topic and its copy, and say what is wrong. Exit 3 if something is."

CHECKS = ("gaps", "duplicates", "order", "keys")


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser("audit", ABOUT, streaming=False)
    parser.add_argument("--topic", required=True, metavar="NAME", help="the topic to look at")
    parser.add_argument(
        "--archive", metavar="DIR", help="look at the topic as an archive holds it, not at the broker's"
    )
    _add_copy(parser.add_argument_group("copy", "compare the topic with a copy of it"))
    _add_range(parser.add_argument_group("range", "look at a part (default: all that is there)"))
    _add_checks(parser.add_argument_group("checks"))
    _add_outputs(parser.add_argument_group("outputs"))
    return parser


def _add_copy(group: Any) -> None:
    group.add_argument("--copy-topic", metavar="NAME", help="a topic that should hold the same")
    group.add_argument("--copy-bootstrap-servers", metavar="HOST:PORT,…", help="where (default: the same cluster)")
    group.add_argument("--copy-archive", metavar="DIR", help="an archive that should hold the same")
    group.add_argument(
        "--match",
        choices=("auto", "offsets", "content"),
        default="auto",
        help="which records belong together: those at the same offset, or the nth of the same key and value "
        "(default: whichever finds less to complain about)",
    )


def _add_range(group: Any) -> None:
    for name, default in (("starting", "earliest"), ("ending", "latest")):
        group.add_argument(
            f"--{name}-offsets",
            type=common.starting_offsets,
            default=default,
            metavar=f"{default}|JSON",
            help="a partition that is not named is taken whole",
        )
    group.add_argument("--since", type=moment, metavar="TIME", help="from the first record that is not older on")
    group.add_argument("--until", type=moment, metavar="TIME", help="up to the first record that is not older")


def _add_checks(group: Any) -> None:
    group.add_argument(
        "--checks", type=_checks, default=CHECKS, metavar=",".join(CHECKS), help="only these (default: all)"
    )
    group.add_argument(
        "--strict", action="store_true", help="transactions are no excuse for an offset without a record"
    )
    identity = group.add_mutually_exclusive_group()
    identity.add_argument("--id-field", metavar="FIELD", help="what makes a record unique, in a JSON value")
    identity.add_argument("--id-header", metavar="NAME", help="what makes a record unique, in a header")
    group.add_argument("--sequence-field", metavar="FIELD", help="a number in a JSON value that counts up for each key")
    group.add_argument(
        "--tolerance",
        type=common.duration,
        default=timedelta(0),
        metavar="DURATION",
        help="how far a key's timestamps may go back (default: not at all)",
    )


def _add_outputs(group: Any) -> None:
    group.add_argument("--json", metavar="FILE", help="everything that was found, for programs")
    group.add_argument("--html", metavar="FILE", help="a page with plots; it needs nothing but itself")
    group.add_argument("--top", type=common.positive_number, default=10, metavar="N", help="keys to list (default: 10)")


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in CHECKS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no check: there are {', '.join(CHECKS)}")
    return names


def moment(text: str) -> int:
    """Milliseconds since 1970: as such, or ISO 8601 (UTC unless it says otherwise)."""
    if text.isdecimal():
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2025-11-16T12:00:00Z or milliseconds") from None
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def check_options(options: argparse.Namespace) -> None:
    for path in (options.json, options.html):
        if path is not None and not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise Failure(f"{path} cannot be written: there is no such folder, or it is not yours")
    if options.copy_topic is not None and options.copy_archive is not None:
        raise Failure("--copy-topic and --copy-archive: compare with one of them")
    if options.copy_bootstrap_servers is not None and options.copy_topic is None:
        options.copy_topic = options.topic
    if options.match == "content" and is_part(options):
        raise Failure("a part can be compared at the same offsets only: leave --match content out, or the range")


def has_copy(options: argparse.Namespace) -> bool:
    return options.copy_topic is not None or options.copy_archive is not None


def is_part(options: argparse.Namespace) -> bool:
    offsets = (options.starting_offsets, options.ending_offsets) != ("earliest", "latest")
    return offsets or options.since is not None or options.until is not None
