"""A verdict as sentences for people, and as JSON for programs."""

from collections.abc import Iterator
from typing import Any

from barnabas.output import human_duration, iso_time, plural
from barnabas.verification.events import FOREIGN, MEMBER, READ_BACK, READER
from barnabas.verification.findings import Finding, Kind
from barnabas.verification.judge import Verdict

EXAMPLES_SHOWN = 3


def sentences(verdict: Verdict) -> Iterator[str]:
    """Yields the lines of the verdict: what was checked, how much, and what was found."""
    yield from _checked(verdict)
    yield from _circumstances(verdict)
    yield ""
    counts = verdict.findings.counts
    for kind in Kind:
        if kind in counts and kind not in verdict.warnings:
            yield f"{counts[kind]:,} {kind.slug}: {kind.meaning}."
            yield from _examples(kind, verdict)
    if verdict.begin.acks != "all" and (Kind.LOST in counts or Kind.UNSEEN in counts):
        yield (
            f"With acks={verdict.begin.acks} a record is acknowledged before other replicas have it, "
            "and can be lost with its leader."
        )
    for kind in Kind:
        if kind in counts and kind in verdict.warnings:
            yield f"A warning, {counts[kind]:,} {kind.slug}: {kind.meaning}."
            yield from _examples(kind, verdict)
            yield "  The producers were not idempotent: this may happen when they retry."
    yield _conclusion(verdict)


def _checked(verdict: Verdict) -> Iterator[str]:
    begin, counts = verdict.begin, verdict.counts
    partitions = plural(len(begin.first_offsets), "partition")
    seconds = human_duration((verdict.ended_ms - begin.time_ms) / 1000)
    yield f"Topic {begin.topic} ({partitions}) was written and read for {seconds}."
    how = "transactional" if counts.transactions else "idempotent" if begin.idempotent else "non-idempotent"
    refused = f", {counts.refused:,} refused" if counts.refused else ""
    unknown = f", {counts.unknown:,} that may be stored or not" if counts.unknown else ""
    yield (
        f"{_records(counts.sent)} sent by {how} producers with acks={begin.acks}: "
        f"{counts.acknowledged:,} acknowledged{refused}{unknown}."
    )
    if ends := counts.transactions:
        in_doubt = f", {ends['in_doubt']:,} that may be either" if ends["in_doubt"] else ""
        transactions = f"{_records(sum(ends.values()), 'transaction')} begun"
        yield f"{transactions}: {ends['committed']:,} committed, {ends['aborted']:,} aborted{in_doubt}."
    readers, members = plural(verdict.roles.get(READER, 0), "reader"), plural(verdict.roles.get(MEMBER, 0), "member")
    groups, commits = plural(verdict.groups, "group"), plural(counts.commits, "commit")
    back = ", and when all was read back" if verdict.roles.get(READ_BACK) else ""
    yield f"{_records(counts.read)} read by {readers}, by {members} of {groups} with {commits}{back}."


def _records(count: int, what: str = "record") -> str:
    return f"{plural(count, what)} {'was' if count == 1 else 'were'}"


def _circumstances(verdict: Verdict) -> Iterator[str]:
    for command in verdict.commands:
        outcome = "succeeded" if command.status == 0 else f"failed with exit code {command.status}"
        yield f"After phase {command.phase}, at {_clock(command.time_ms)}, the command {outcome}: {command.command}"
    if (foreign := verdict.counts.foreign) and verdict.begin.shared:
        was = "was in the topic; it was" if foreign == 1 else "were in the topic; they were"
        yield f"{plural(foreign, 'record')} of others {was} not judged."
    for partition, start in verdict.log_starts.items():
        yield f"Partition {partition} now begins at offset {start}: what was before it is not judged."
    if excused := verdict.counts.excused:
        yield f"{_records(excused, 'acknowledged record')} before that, and {'is' if excused == 1 else 'are'} excused."
    if verdict.errors:
        most = sorted(verdict.errors.items(), key=lambda item: -item[1])[:EXAMPLES_SHOWN]
        said = "; ".join(f"{text} ({count:,})" for text, count in most)
        yield f"The clients met {plural(sum(verdict.errors.values()), 'error')} and went on: {said}."


def _examples(kind: Kind, verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings.examples[kind][:EXAMPLES_SHOWN]:
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
    if verdict.anomalies:
        kinds = ", ".join(kind.slug for kind in Kind if kind in verdict.anomalies)
        return f"Anomalies were found: {kinds}."
    nothing = "Nothing else was found" if verdict.findings.counts else "Nothing was found"
    if not verdict.counts.acknowledged:
        return f"{nothing}, but nothing was acknowledged either: this says little."
    if ends := verdict.counts.transactions:
        if not ends["committed"]:
            return f"{nothing}, but no transaction was committed either: this says little."
        return (
            f"{nothing}: every record of a committed transaction is there once, in order, unaltered, every reader "
            "found it, and nobody has read any other."
        )
    if verdict.findings.counts:
        return f"{nothing}: every acknowledged record is there, unaltered, and every reader found it."
    return f"{nothing}: every acknowledged record is there once, in order, unaltered, and every reader found it."


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
