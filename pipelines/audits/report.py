"""What an audit says: findings, notes and figures, on the terminal and as JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from barnabas.pipelines.shared.progress import plural

EXAMPLES = 10
ROWS_MAX = 50
"""How many partitions are listed on a terminal."""
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass
class Finding:
    """Something that is not as it should be; or, as a note, something that only looks so."""

    check: str
    title: str
    meaning: str
    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    is_note: bool = False

    @property
    def headline(self) -> str:
        return f"{self.title}: {self.count:,}" if self.count else self.title


@dataclass
class PartitionFigures:
    partition: int
    first_offset: int
    end_offset: int
    records: int
    bytes: int
    missing_offsets: int
    first_ms: int | None
    last_ms: int | None
    records_without_key: int
    tombstones: int
    records_with_broker_time: int


@dataclass
class KeyFigures:
    key: str
    records: int
    bytes: int
    partitions: int


@dataclass
class Interval:
    start_ms: int
    partition: int
    """-1 for all partitions that are not listed by themselves."""
    records: int
    bytes: int


@dataclass
class SizeStep:
    """Records of `from_bytes` to less than `to_bytes`."""

    from_bytes: int
    to_bytes: int
    records: int


@dataclass
class Report:
    subject: str
    copy: str | None = None
    matched_by: str | None = None
    partitions: list[PartitionFigures] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Percentiles of the bytes of a record: key, value and headers."""
    size_steps: list[SizeStep] = field(default_factory=list)
    keys: int = 0
    top_keys: list[KeyFigures] = field(default_factory=list)
    interval_ms: int = 0
    intervals: list[Interval] = field(default_factory=list)
    outside_intervals: int = 0
    """Records whose timestamps are so far from all others that the intervals leave them out."""
    written_ms: int = 0

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.partitions)

    @property
    def problems(self) -> list[Finding]:
        return [each for each in self.findings if not each.is_note]

    @property
    def notes(self) -> list[Finding]:
        return [each for each in self.findings if each.is_note]

    @property
    def imbalance(self) -> float:
        """Returns the bytes of the largest partition, as a multiple of the mean."""
        return max(each.bytes for each in self.partitions) * len(self.partitions) / self.bytes if self.bytes else 1.0

    def as_json(self) -> str:
        totals = {"records": self.records, "bytes": self.bytes, "imbalance": round(self.imbalance, 3)}
        return json.dumps({"ok": not self.problems, **totals, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def as_text(report: Report) -> str:
    lines = [report.subject if report.copy is None else f"{report.subject}, copied to {report.copy}"]
    if report.matched_by is not None:
        lines.append(f"records are compared {report.matched_by}")
    lines += ["", *_partition_table(report), "", *_key_lines(report)]
    for title, findings in (("note", report.notes), ("FOUND", report.problems)):
        for each in findings:
            lines += ["", f"{title}  {each.headline}", f"  {each.meaning}"]
            lines += [f"    {example_text(example)}" for example in each.examples]
    lines += ["", verdict(report)]
    return "\n".join(lines)


def verdict(report: Report) -> str:
    if not report.problems:
        return f"No problems: {plural(report.records, 'record')} checked."
    return f"{plural(len(report.problems), 'finding')} in {plural(report.records, 'record')}."


def _partition_table(report: Report) -> list[str]:
    head = ("partition", "first offset", "end offset", "records", "missing", "bytes", "share", "from", "to")
    total = report.bytes
    rows = [
        (
            str(each.partition),
            f"{each.first_offset:,}",
            f"{each.end_offset:,}",
            f"{each.records:,}",
            f"{each.missing_offsets:,}",
            bytes_text(each.bytes),
            f"{each.bytes / total:.1%}" if total else "-",
            time_text(each.first_ms),
            time_text(each.last_ms),
        )
        for each in report.partitions
    ]
    more = [] if len(rows) <= ROWS_MAX else [f"… and {len(rows) - ROWS_MAX:,} more: see --json or --html"]
    return table(head, rows[:ROWS_MAX]) + more


def _key_lines(report: Report) -> list[str]:
    lines = []
    if report.sizes:
        lines.append("record sizes  " + ", ".join(f"{name} {bytes_text(size)}" for name, size in report.sizes.items()))
    if report.top_keys:
        lines += ["", f"{plural(report.keys, 'key')}; the most frequent:"]
        rows = [
            (each.key, f"{each.records:,}", f"{each.records / report.records:.1%}", bytes_text(each.bytes))
            for each in report.top_keys
        ]
        lines += table(("key", "records", "share", "bytes"), rows)
    return lines


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Aligns the first column to the left if it is text, all others to the right."""
    rows = list(rows)
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        first = row[0].ljust(widths[0])
        return "  ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()

    return [line(head), *(line(row) for row in rows)]


def example_text(example: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in example.items() if value is not None)


def bytes_text(size: float) -> str:
    power = 0
    while size >= 1024 and power < len(BYTE_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{f'{size:,.1f}'.removesuffix('.0')} {BYTE_UNITS[power]}"


def time_text(ms: int | None) -> str:
    """Shows a timestamp. Producers choose timestamps: they can be anything that fits into 64 bits."""
    if ms is None or ms < 0:
        return "-"
    try:
        text = datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return text.removesuffix("000").removesuffix(".000")
