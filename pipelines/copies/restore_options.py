"""The options of a restore, and the part of an archive that they choose."""

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.pipelines.copies.ordered_sink import NO_RETRIES
from barnabas.pipelines.shared import options

DEFAULT_CHUNK_RECORDS = 500_000


def make_parser() -> argparse.ArgumentParser:
    made = options.parser("restore", "Writes archived records to a topic again: each once, in order.", streaming=False)
    made.set_defaults(conf=dict(NO_RETRIES))
    _add_what(made.add_argument_group("what"))
    _add_where(made.add_argument_group("where"))
    return made


def _add_what(group: Any) -> None:
    group.add_argument("--archive", required=True, metavar="DIR", help="what the archive job wrote")
    group.add_argument("--source-topic", required=True, metavar="NAME", help="the topic that was archived")
    group.add_argument(
        "--from-offset",
        action=_CollectOffsets,
        default={},
        metavar="[PARTITION=]OFFSET,…",
        help="leave out what is before, in one partition or in all",
    )
    group.add_argument(
        "--to-offset",
        action=_CollectOffsets,
        default={},
        metavar="[PARTITION=]OFFSET,…",
        help="leave out this offset and what follows, in one partition or in all",
    )
    group.add_argument(
        "--from-time", type=moment, metavar="TIME", help="leave out records that are older (ISO 8601, UTC)"
    )
    group.add_argument("--to-time", type=moment, metavar="TIME", help="leave out records of this time and later")
    group.add_argument(
        "--fail-on-data-loss",
        type=options.truth,
        default=True,
        metavar="true|false",
        help="stop if files were removed from the archive (default: true)",
    )


def _add_where(group: Any) -> None:
    group.add_argument("--topic", metavar="NAME", help="the topic to write (default: the name that was archived)")
    group.add_argument("--checkpoint", required=True, metavar="DIR", help=options.CHECKPOINT)
    group.add_argument("--timestamp-header", metavar="NAME", help="keep the archived timestamps in a header")
    group.add_argument(
        "--topic-config",
        action=options.CollectSettings,
        default={},
        metavar="KEY=VALUE",
        help="a setting of the topic, if it is created (repeatable)",
    )
    group.add_argument(
        "--replication-factor", type=options.positive_number, metavar="N", help="of the topic, if it is created"
    )
    group.add_argument(
        "--chunk-records",
        type=options.positive_number,
        default=DEFAULT_CHUNK_RECORDS,
        metavar="N",
        help="write about so many records at a time (default: %(default)s)",
    )
    group.add_argument(
        "--timeout",
        type=options.duration,
        default=timedelta(minutes=10),
        metavar="DURATION",
        help="how long the cluster may be away before the job ends (default: 10m)",
    )
    group.add_argument(
        "--adopt", action="store_true", help="go on behind what the topic has, if it is the beginning of the archive"
    )


ALL = -1
"""Stands for every partition that is not named."""


class _CollectOffsets(argparse.Action):
    """OFFSET or PARTITION=OFFSET, repeatable, commas allowed, as a dict by partition."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        found: dict[int, int] = dict(getattr(namespace, self.dest))
        for word in values.split(","):
            partition, equals, offset = word.strip().rpartition("=")
            if not offset.isdecimal() or (equals and not partition.isdecimal()):
                raise argparse.ArgumentError(self, f"{word!r} must be an offset, or PARTITION=OFFSET")
            found[int(partition) if equals else ALL] = int(offset)
        setattr(namespace, self.dest, found)


def moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 2025-11-16 or 2025-11-16T14:30:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Part:
    """Which records of the archived topic; both ends as ranges have them."""

    from_offset: dict[int, int]
    to_offset: dict[int, int]
    from_time: datetime | None
    to_time: datetime | None

    def offsets(self, partition: int, archived: range) -> range:
        start = self.from_offset.get(partition, self.from_offset.get(ALL, archived.start))
        stop = self.to_offset.get(partition, self.to_offset.get(ALL, archived.stop))
        start = max(start, archived.start)
        return range(start, max(start, min(stop, archived.stop)))

    def may_hold(self, path: str) -> bool:
        """Whether a file may have records of the time that was chosen: its folders say of which day or hour it is."""
        found = re.search(r"/date=(\d{4}-\d{2}-\d{2})(?:/hour=(\d{2}))?/", path)
        if found is None:
            return True
        first = datetime.fromisoformat(f"{found[1]}T{found[2] or '00'}:00:00+00:00")
        last = first + (timedelta(hours=1) if found[2] else timedelta(days=1))
        return (self.from_time is None or self.from_time < last) and (self.to_time is None or self.to_time > first)

    def text(self) -> str:
        """The same text for the same part."""
        times = [None if time is None else time.astimezone(UTC).isoformat() for time in (self.from_time, self.to_time)]
        return repr((sorted(self.from_offset.items()), sorted(self.to_offset.items()), *times))
