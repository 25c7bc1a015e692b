"""Rolls up JSON events into event-time windows; docs/pipelines/rollup.md says what is promised."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.rollups.batch_notes import BatchNotes
from barnabas.pipelines.rollups.dead_letters import DeadLetters, Unused, with_letter
from barnabas.pipelines.rollups.events import parse
from barnabas.pipelines.rollups.options import Rollup, make_parser, rollup_of
from barnabas.pipelines.rollups.output import ParquetOutput, check_checkpoint, make_checkpoint, send
from barnabas.pipelines.rollups.plan import check_topics, print_plan
from barnabas.pipelines.rollups.running_batch import RunningBatch, keep_at_hand
from barnabas.pipelines.rollups.windows import roll_up
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.folder import folder_of, open_folder
from barnabas.pipelines.shared.files.offset_log import BatchRange, batch_range
from barnabas.pipelines.shared.progress import Counts, Progress
from barnabas.pipelines.shared.spark.launch import launch
from barnabas.pipelines.shared.stream import observe_newest, run_stream

__all__ = ["main", "make_parser", "run"]

QUERY = "rollup"
DEAD_LETTERS = "dead letters"


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    rollup = rollup_of(options)
    topics = check_topics(spark, options)
    checkpoint = Files(spark, options.checkpoint)
    output = None
    if options.output is not None:
        output = ParquetOutput(open_folder(spark, options.output), BatchNotes(folder_of(checkpoint)))
    checkpoint_id = check_checkpoint(checkpoint, rollup.fixed)
    if options.dry_run:
        if output is not None:
            output.check(checkpoint_id or "")
        print_plan(topics, checkpoint, output, options, rollup)
        return 0
    checkpoint_id = checkpoint_id or make_checkpoint(checkpoint, rollup.fixed)
    progress = StateProgress(QUERY)
    try:
        if output is not None:
            output.open(checkpoint_id)
        batches = Batches(spark, options, rollup, checkpoint, output)
        run_stream(_windows(spark, options, rollup), batches, options, name=QUERY, progress=progress)
    finally:
        if output is not None:
            output.close()
    _say_what_is_left(progress, options)
    return 0


def _say_what_is_left(progress: "StateProgress", options: argparse.Namespace) -> None:
    if progress.open_windows:
        progress.say(
            f"{progress.open_windows:,} windows are still open (watermark {progress.watermark}): they are kept in "
            f"{options.checkpoint} and written when later events arrive"
        )
    if progress.summary.figures.get(DEAD_LETTERS) and options.dead_letter_topic is None:
        progress.say("dead letters were only counted: give --dead-letter-topic to keep them")


def _windows(spark: SparkSession, options: argparse.Namespace, rollup: Rollup) -> DataFrame:
    records = observe_newest(spark.readStream.format("kafka").options(**common.source_settings(options)).load())
    letters = with_letter(
        parse(records, rollup.form),
        wanted=options.dead_letter_topic is not None,
        late_too=options.dead_letter_late,
    )
    parsed = keep_at_hand(letters, rollup.windows.first_end_micros())
    delay = f"{int(options.watermark.total_seconds() * 1000)} milliseconds"
    good = parsed.filter(F.col("reason").isNull()).withWatermark("event_time", delay)
    return roll_up(good, rollup.form, rollup.windows, rollup.aggregates)


@dataclass
class Batches:
    """Handles each batch: counts it, sends its dead letters and writes its windows.

    The file of a batch is written last: where the file exists, the whole batch was handled.
    """

    spark: SparkSession
    options: argparse.Namespace
    rollup: Rollup
    checkpoint: Files
    output: ParquetOutput | None

    def __call__(self, windows: DataFrame, batch_id: int) -> Counts:
        windows = windows.persist()
        # A run that died before Spark noted the batch may have done all of it: then it is only counted.
        to_do = self.output is None or not self.output.holds(batch_id)
        try:
            count = windows.count()  # of all partitions, so that the state of all of them is written
            unused = self._unused(batch_range(self.checkpoint, batch_id), send_letters=to_do)
            if count > 0 and to_do:
                self._write(windows, batch_id)
        finally:
            windows.unpersist()
        return Counts(rows_out=count, figures=self._figures(unused))

    def _write(self, windows: DataFrame, batch_id: int) -> None:
        if self.options.output_topic is not None:
            keys = [field.name for field in self.rollup.form.keys]
            send(windows, self.options.output_topic, keys, common.kafka_settings(self.options))
        if self.output is not None:
            self.output.write(windows, batch_id)

    def _unused(self, batch: BatchRange, *, send_letters: bool) -> Unused:
        if not batch.spans:
            return Unused()
        running = RunningBatch(self.spark, QUERY)
        seen = running.seen()
        if seen is not None and seen.unreadable == 0 and seen.first_end_ms > batch.late_watermark_ms:
            return Unused()
        letters = DeadLetters(
            settings=common.kafka_settings(self.options),
            windows=self.rollup.windows,
            topic=self.options.dead_letter_topic if send_letters else None,
            late_too=self.options.dead_letter_late,
        )
        return letters.handle(running.records(), batch.late_watermark_ms)

    def _figures(self, unused: Unused) -> dict[str, int]:
        figures = {"late": unused.late, DEAD_LETTERS: sum(unused.unreadable.values())}
        return figures if self.options.slide is None else {**figures, "partly late": unused.partly_late}


class StateProgress(Progress):
    """Remembers how many windows are open, for the last line of the summary."""

    open_windows = 0
    watermark = ""

    def query_progressed(self, progress: dict[str, Any]) -> None:
        super().query_progressed(progress)
        if progress["stateOperators"]:
            self.open_windows = sum(operator["numRowsTotal"] for operator in progress["stateOperators"])
            self.watermark = progress.get("eventTime", {}).get("watermark", "")


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
