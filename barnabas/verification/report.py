"""A verdict as sentences for people, and as JSON for programs."""

from collections.abc import Iterator
from typing import Any

from barnabas.output import human_duration, iso_time, plural
from barnabas.verification.events import FOREIGN, MEMBER, READER
from barnabas.verification.findings import Finding, Kind
from barnabas.verification.judge import Verdict

EXAMPLES_SHOWN = 3


def sentences(verdict: Verdict) -> Iterator[str]:
    """Yields the lines of the verdict: what was checked, how much, and what was found."""
    yield from _checked(verdict)
    yield ""
    findings = verdict.findings
    for kind in Kind:
        if kind in findings.counts and kind not in verdict.warnings:
            yield from _anomaly(
                f"{plural(findings.counts[kind], 'anomaly').replace('anomalys', 'anomalies')}", kind, verdict
            )
    for kind in Kind:
        if kind in findings.counts and kind in verdict.warnings:
            yield from _anomaly(plural(findings.counts[kind], "warning"), kind, verdict)
            yield "  The producers were not idempotent: when they retry, this may happen."
    yield _conclusion(verdict)


def _checked(verdict: Verdict) -> Iterator[str]:
    begin, counts = verdict.begin, verdict.counts
    partitions = plural(len(begin.first_offsets), "partition")
    seconds = human_duration((verdict.ended_ms - begin.time_ms) / 1000)
    yield f"Topic {begin.topic} ({partitions}) was written and read for {seconds}."
    how = "an idempotent" if begin.idempotent else "a non-idempotent"
    unknown = f", {counts.unknown:,} may be stored or not" if counts.unknown else ""
    refused = f", {counts.refused:,} refused" if counts.refused else ""
    yield (
        f"{plural(counts.sent, 'record')} were sent by {how} producer with acks={begin.acks}: "
        f"{counts.acknowledged:,} acknowledged{refused}{unknown}."
    )
    members, readers = verdict.roles.get(MEMBER, 0), verdict.roles.get(READER, 0)
    yield (
        f"{plural(counts.read, 'record')} were read, by {plural(readers, 'reader')}, {plural(members, 'member')} of "
        f"{plural(verdict.groups, 'group')} with {plural(counts.commits, 'commit')}, and when everything was read back."
    )
    yield from _circumstances(verdict)


def _circumstances(verdict: Verdict) -> Iterator[str]:
    for command in verdict.commands:
        outcome = "succeeded" if command.status == 0 else f"failed with exit code {command.status}"
        yield f"After phase {command.phase}, at {_clock(command.time_ms)}, the command {outcome}: {command.command}"
    if verdict.counts.foreign and verdict.begin.shared:
        yield f"{plural(verdict.counts.foreign, 'record')} of others were in the topic; they were not judged."
    for partition, start in verdict.log_starts.items():
        yield f"Partition {partition} now begins at offset {start}: what was before it is not judged."
    if verdict.counts.excused:
        yield f"{plural(verdict.counts.excused, 'acknowledged record')} were before that, and are excused."
    if verdict.errors:
        most = sorted(verdict.errors.items(), key=lambda item: -item[1])[:EXAMPLES_SHOWN]
        said = "; ".join(f"{text} ({count:,})" for text, count in most)
        yield f"The clients met {plural(sum(verdict.errors.values()), 'error')} and went on: {said}."


def _anomaly(count: str, kind: Kind, verdict: Verdict) -> Iterator[str]:
    yield f"{count}, {kind.slug}: {kind.meaning}."
    examples = verdict.findings.examples[kind]
    for finding in examples[:EXAMPLES_SHOWN]:
        yield f"  {sentence(finding)}"
    if (more := verdict.findings.counts[kind] - EXAMPLES_SHOWN) > 0:
        yield f"  … and {more:,} more"


def sentence(finding: Finding) -> str:
    """Returns where it is, which record it is about, when, and what is wrong."""
    places = [f"partition {finding.partition}"] if finding.partition is not None else []
    places += [f"offset {finding.offset}"] if finding.offset is not None else []
    if finding.producer is not None and finding.producer != FOREIGN:
        places.append(f"record {finding.sequence} of producer {finding.producer}")
    times = [
        f"{what} {_clock(time_ms)}"
        for what, time_ms in (
            ("sent", finding.sent_ms),
            ("acknowledged", finding.acknowledged_ms),
            ("seen", finding.time_ms),
        )
        if time_ms is not None
    ]
    when = f" ({', '.join(times)})" if times else ""
    return f"{', '.join(places)}{when}: {finding.said}"


def _clock(time_ms: int) -> str:
    return iso_time(time_ms).partition("T")[2]


def _conclusion(verdict: Verdict) -> str:
    anomalies = sum(count for kind, count in verdict.findings.counts.items() if kind not in verdict.warnings)
    if anomalies:
        kinds = ", ".join(kind.slug for kind in Kind if kind in verdict.anomalies)
        return f"The cluster broke its promises: {kinds}."
    if not verdict.counts.acknowledged:
        return "Nothing was found, but nothing was acknowledged either: this says little."
    return "Nothing was found: every acknowledged record is there once, in order, unaltered, and every reader found it."


def evidence(verdict: Verdict) -> dict[str, Any]:
    """Returns the verdict as JSON has it, with the examples that were kept of each kind."""
    findings = verdict.findings
    return {
        "anomalies": {kind.slug: findings.counts[kind] for kind in Kind if kind in verdict.anomalies},
        "warnings": {
            kind.slug: findings.counts[kind] for kind in Kind if kind in findings.counts and kind in verdict.warnings
        },
        "begin": verdict.begin._asdict(),
        "ended_ms": verdict.ended_ms,
        "counts": verdict.counts._asdict(),
        "log_starts": {str(partition): start for partition, start in verdict.log_starts.items()},
        "commands": [command._asdict() for command in verdict.commands],
        "errors": verdict.errors,
        "examples": [
            finding._asdict() | {"kind": kind.slug} for kind in Kind for finding in findings.examples.get(kind, ())
        ],
    }
