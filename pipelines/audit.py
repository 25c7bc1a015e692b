"""Checks every record of a topic, or of a topic and its copy, and reports problems; see docs/pipelines/audit.md."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines.audits import checks, order
from barnabas.pipelines.audits.compare import compare
from barnabas.pipelines.audits.options import check_options, has_copy, is_part, make_parser
from barnabas.pipelines.audits.page import as_html
from barnabas.pipelines.audits.records import Extras, Range, Side, archive_side, topic_side
from barnabas.pipelines.audits.report import Report, as_text
from barnabas.pipelines.audits.shape import describe_keys, describe_sizes, describe_time
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.progress import plural, status
from barnabas.pipelines.shared.spark.launch import launch

__all__ = ["FOUND", "main", "make_parser", "run", "servers"]

FOUND = 3


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    check_options(options)
    extras = Extras(id_field=options.id_field, id_header=options.id_header, sequence_field=options.sequence_field)
    part = Range(
        starting=options.starting_offsets,
        ending=options.ending_offsets,
        since_ms=options.since,
        until_ms=options.until,
    )
    copy = None
    if has_copy(options) and not is_part(options):
        # Before the source: a copy that is being written would otherwise have records from after the source's end.
        copy = _copy(spark, options, Range())
    source = _source(spark, options, part, extras)
    if has_copy(options) and is_part(options):
        # The same offsets of the copy, whatever times its records have.
        copy = _copy(spark, options, Range(spans=source.spans))
    if options.dry_run:
        _print_plan(source, copy)
        return 0
    with status("audit: reading"):
        report = audit(source, copy, options)
    print(as_text(report))
    _write(options.json, report.as_json)
    _write(options.html, lambda: as_html(report))
    return FOUND if report.problems else 0


def _source(spark: SparkSession, options: argparse.Namespace, part: Range, extras: Extras) -> Side:
    if options.archive is not None:
        return archive_side(spark, options.archive, options.topic, part, extras)
    return topic_side(spark, common.kafka_settings(options), options.topic, part, extras)


def _copy(spark: SparkSession, options: argparse.Namespace, part: Range) -> Side:
    if options.copy_archive is not None:
        return archive_side(spark, options.copy_archive, options.topic, part, Extras())
    settings = common.kafka_settings(options)
    if options.copy_bootstrap_servers is not None:
        settings["kafka.bootstrap.servers"] = options.copy_bootstrap_servers
    return topic_side(spark, settings, options.copy_topic, part, Extras())


def audit(source: Side, copy: Side | None, options: argparse.Namespace) -> Report:
    """Reads each side once and checks it; what is kept of it is small, and on disk where memory is short."""
    source = replace(source, frame=source.frame.persist())
    copy = None if copy is None else replace(copy, frame=copy.frame.persist())
    try:
        report = Report(source.name, written_ms=round(time.time() * 1000))
        report.partitions, report.size_steps = checks.partitions(source)
        _describe(source, report, options)
        _check(source, report, options)
        if copy is not None:
            report.copy = copy.name
            found, report.matched_by = compare(source, copy, "offsets" if is_part(options) else options.match)
            report.findings += [*checks.offsets_twice(copy), *found]
        return report
    finally:
        for side in (source, copy):
            if side is not None:
                side.frame.unpersist()


def _describe(source: Side, report: Report, options: argparse.Namespace) -> None:
    first_ms, last_ms = describe_sizes(source, report)
    if report.records:
        describe_time(source, report, first_ms, last_ms)
        describe_keys(source, report, options.top, check="keys" in options.checks)


def _check(source: Side, report: Report, options: argparse.Namespace) -> None:
    if "gaps" in options.checks:
        committed_only = common.kafka_settings(options).get("kafka.isolation.level") == "read_committed"
        report.findings += checks.gaps(source, report.partitions, strict=options.strict, committed_only=committed_only)
    if "duplicates" in options.checks:
        by_id = options.id_field or (options.id_header and f"header {options.id_header}")
        report.findings += [*checks.offsets_twice(source), *checks.duplicates(source, report.partitions, by_id)]
    if "order" in options.checks:
        if options.sequence_field is not None:
            report.findings += order.sequences(source, options.sequence_field)
        else:
            report.findings += order.timestamps_going_back(source, report.partitions, options.tolerance)


def _print_plan(source: Side, copy: Side | None) -> None:
    for what, side in (("read", source), ("compare with", copy)):
        if side is not None:
            offsets = sum(len(span) for span in side.spans.values())
            print(f"{what:>12}  {side.name}: {plural(len(side.spans), 'partition')}, {plural(offsets, 'offset')}")


def _write(path: str | None, text: Callable[[], str]) -> None:
    if path is None:
        return
    try:
        Path(path).write_text(text(), encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path} could not be written: {error.strerror}; name another file") from error


def servers(options: argparse.Namespace) -> dict[str, str]:
    """Returns the clusters to reach: none, if all records are in archives."""
    copy = {"--copy-bootstrap-servers": options.copy_bootstrap_servers} if options.copy_bootstrap_servers else {}
    reads_topic = options.archive is None or (options.copy_topic is not None and not copy)
    return {**(common.bootstrap_servers(options) if reads_topic else {}), **copy}


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments, servers)


if __name__ == "__main__":
    sys.exit(main())
