"""Rolls up JSON events into event-time windows; docs/pipelines/rollup.md says what is promised."""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.rollups.batch_notes import BatchNotes
from barnabas.pipelines.rollups.dead_letters import DeadLetters, Unused
from barnabas.pipelines.rollups.events import parse
from barnabas.pipelines.rollups.options import Rollup, make_parser, rollup_of
from barnabas.pipelines.rollups.output import ParquetOutput, check_checkpoint, make_checkpoint, send
from barnabas.pipelines.rollups.plan import check_topics, print_plan
from barnabas.pipelines.rollups.windows import roll_up
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.files import Files
from barnabas.pipelines.shared.folder import folder_of, open_folder
from barnabas.pipelines.shared.launch import launch
from barnabas.pipelines.shared.offset_log import BatchRange, batch_range
from barnabas.pipelines.shared.progress import Counts, Progress
from barnabas.pipelines.shared.stream import observe_newest, run_stream

QUERY = "rollup"
SEEN = "seen"
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
            f"{options.checkpoint} and given out when later events arrive"
        )
    if progress.summary.figures.get(DEAD_LETTERS) and options.dead_letter_topic is None:
        progress.say("dead letters were only counted: --dead-letter-topic keeps them")


def _windows(spark: SparkSession, options: argparse.Namespace, rollup: Rollup) -> DataFrame:
    records = observe_newest(spark.readStream.format("kafka").options(**common.source_settings(options)).load())
    # Tells whether a batch held anything that needs a second look.
    seen = (F.count("reason").alias("unreadable"), F.min(rollup.windows.first_end_micros()).alias("first_end"))
    parsed = parse(records, rollup.form).observe(SEEN, *seen)
    delay = f"{int(options.watermark.total_seconds() * 1000)} milliseconds"
    good = parsed.filter(F.col("reason").isNull()).withWatermark("event_time", delay)
    return roll_up(good, rollup.form, rollup.windows, rollup.aggregates)


@dataclass
class Batches:
    """What happens with the windows that a batch gives out. The file comes last: where it is, all was done."""

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
                self._give_out(windows, batch_id)
        finally:
            windows.unpersist()
        return Counts(rows_out=count, figures=self._figures(unused))

    def _give_out(self, windows: DataFrame, batch_id: int) -> None:
        if self.options.output_topic is not None:
            keys = [field.name for field in self.rollup.form.keys]
            send(windows, self.options.output_topic, keys, common.kafka_settings(self.options))
        if self.output is not None:
            self.output.write(windows, batch_id)

    def _unused(self, batch: BatchRange, *, send_letters: bool) -> Unused:
        seen = _seen(self.spark)
        if seen is not None and seen.unreadable == 0 and seen.first_end_ms > batch.late_watermark_ms:
            return Unused()
        letters = DeadLetters(
            spark=self.spark,
            settings=common.kafka_settings(self.options),
            form=self.rollup.form,
            windows=self.rollup.windows,
            topic=self.options.dead_letter_topic if send_letters else None,
            late_too=self.options.dead_letter_late,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        return letters.handle(batch)

    def _figures(self, unused: Unused) -> dict[str, int]:
        figures = {"late": unused.late, DEAD_LETTERS: sum(unused.unreadable.values())}
        return figures if self.options.slide is None else {**figures, "partly late": unused.partly_late}


class Seen(NamedTuple):
    unreadable: int
    first_end_ms: float


def _seen(spark: SparkSession) -> Seen | None:
    """What Spark observed in the batch that runs. A task that ran twice counts twice: enough to tell 0 from more."""
    for query in spark.streams.active:
        if query.name == QUERY:
            try:
                java: Any = query._jsq
                row = java.streamingQuery().lastExecution().observedMetrics().apply(SEEN)
                return Seen(row.getLong(0), math.inf if row.isNullAt(1) else row.getLong(1) / 1000)
            except Py4JError:
                return None
    return None


class StateProgress(Progress):
    """Remembers how many windows are open, for the last word."""

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
