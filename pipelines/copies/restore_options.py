"""The options of a restore, and the part of an archive that they choose."""

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.pipelines.copies.copy_options import add_new_topics, add_writing, copy_parser
from barnabas.pipelines.shared import options

DEFAULT_CHUNK_RECORDS = 500_000


def make_parser() -> argparse.ArgumentParser:
    made = copy_parser("restore", "Writes archived records to a topic again: each once, in order.", streaming=False)
    _add_what(made.add_argument_group("what"))
    _add_where(made.add_argument_group("where"))
    return made


def _add_what(group: Any) -> None:
    group.add_argument("--archive", required=True, metavar="DIR", help="the --output of the archive job")
    group.add_argument("--source-topic", required=True, metavar="NAME", help="the topic that was archived")
    for name, left_out in (("from", "lower offsets"), ("to", "this offset and higher ones")):
        group.add_argument(
            f"--{name}-offset",
            action=_CollectOffsets,
            default={},
            metavar="[PARTITION=]OFFSET,…",
            help=f"leave out {left_out}, in one partition or in all",
        )
    group.add_argument(
        "--from-time", type=options.moment, metavar="TIME", help="leave out older records (ISO 8601, UTC)"
    )
    group.add_argument(
        "--to-time", type=options.moment, metavar="TIME", help="leave out records of this time and later"
    )
    options.add_fail_on_data_loss(group, "files were removed from the archive")


def _add_where(group: Any) -> None:
    group.add_argument(
        "--topic", metavar="NAME", help="the topic to write to (default: the name of the archived topic)"
    )
    group.add_argument("--checkpoint", required=True, metavar="DIR", help=options.CHECKPOINT)
    add_writing(group, source="archive", target="topic")
    add_new_topics(group, "a setting of the topic, if the job creates it")
    group.add_argument(
        "--chunk-records",
        type=options.positive_number,
        default=DEFAULT_CHUNK_RECORDS,
        metavar="N",
        help="write about this many records at a time (default: %(default)s)",
    )


ALL = -1
"""Stands for every partition that is not named."""


class _CollectOffsets(argparse.Action):
    """Collects OFFSET or PARTITION=OFFSET, repeatable, commas allowed, in a dict by partition."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        found: dict[int, int] = dict(getattr(namespace, self.dest))
        for word in values.split(","):
            partition, equals, offset = word.strip().rpartition("=")
            if not offset.isdecimal() or (equals and not partition.isdecimal()):
                raise argparse.ArgumentError(self, f"{word!r} must be an offset, or PARTITION=OFFSET")
            found[int(partition) if equals else ALL] = int(offset)
        setattr(namespace, self.dest, found)


@dataclass(frozen=True)
class Part:
    """Which records of the archived topic are chosen; the ends are those of a range."""

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
        """Says whether a file may hold records of the chosen time: its folders name its day or its hour."""
        found = re.search(r"/date=(\d{4}-\d{2}-\d{2})(?:/hour=(\d{2}))?/", path)
        if found is None:
            return True
        first = datetime.fromisoformat(f"{found[1]}T{found[2] or '00'}:00:00+00:00")
        last = first + (timedelta(hours=1) if found[2] else timedelta(days=1))
        return (self.from_time is None or self.from_time < last) and (self.to_time is None or self.to_time > first)

    def text(self) -> str:
        """Returns the same text for the same part."""
        times = [None if time is None else time.astimezone(UTC).isoformat() for time in (self.from_time, self.to_time)]
        return repr((sorted(self.from_offset.items()), sorted(self.to_offset.items()), *times))
