"""Runs a streaming query until it has read all, is asked to stop, or fails; a batch that runs is never cut short.

Spark's `query.stop()` interrupts the batch that runs. So a query is stopped only while none does: once stopping, the
batch under way is awaited, its commit too, and one that would begin is refused. A refused batch was planned but not
committed: the next run begins with it.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from barnabas.pipelines.shared.explain import BEGIN_AGAIN, GO_ON, SPARK_ERRORS, explain
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.offset_log import last_offsets
from barnabas.pipelines.shared.progress import NEWEST, Counts, Progress, Summary
from barnabas.pipelines.shared.stop_signal import StopSignal

POLL_MS = 200

EachBatch = Callable[[DataFrame, int], Counts | None]


def run_stream(
    frame: DataFrame,
    each_batch: EachBatch,
    options: argparse.Namespace,
    *,
    name: str,
    output_mode: str = "append",
    progress: Progress | None = None,
) -> Summary:
    """Passes every batch to `each_batch`, which may return counts. Raises Failure in one line."""
    _check_topics(frame.sparkSession, options)
    progress = progress or Progress(name)
    with StopSignal() as stop:
        batches = _Batches(each_batch, progress, stop)
        try:
            progress.waits()
            _Query(_start(frame, batches, options, name, output_mode), batches, progress).follow(stop)
        except BaseException as error:
            progress.abandon()
            if isinstance(error, SPARK_ERRORS):
                # In a batch it may be another cluster that does not answer.
                raise explain(error, "" if error is batches.error else options.bootstrap_servers) from error
            raise
        return progress.finish(stopped=stop.is_set)


def observe_newest(frame: DataFrame) -> DataFrame:
    """Lets the progress line show the lag in seconds, for a job that hands on frames without Kafka's columns."""
    if NEWEST in str(frame._jdf.queryExecution().analyzed().toString()):
        return frame
    newest_ms = F.max(F.unix_millis(F.col("timestamp"))).alias("newest_ms")
    return frame.observe(NEWEST, newest_ms)


def _check_topics(spark: SparkSession, options: argparse.Namespace) -> None:
    """Refuses other topics early: Spark would plan a batch of them first, and the checkpoint would keep it."""
    named = getattr(options, "topic", None)
    if not isinstance(named, list) or not named or not options.fail_on_data_loss:
        return
    try:
        read = last_offsets(Files(spark, options.checkpoint)) or {}
    except Failure:
        return  # of a Spark whose notes we cannot read: it can
    if strange := sorted(read.keys() - set(named)):
        raise Failure(
            f"the checkpoint {options.checkpoint} has read {', '.join(strange)}, which is not named any more: name it, "
            f"{BEGIN_AGAIN}, or {GO_ON}"
        )


def _start(frame: DataFrame, batches: "_Batches", options: argparse.Namespace, name: str, output_mode: str) -> Any:
    if "timestamp" in frame.columns and isinstance(frame.schema["timestamp"].dataType, TimestampType):
        frame = observe_newest(frame)
    writer = frame.writeStream.queryName(name).outputMode(output_mode).foreachBatch(batches)
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{int(options.every.total_seconds() * 1000)} milliseconds")
    return writer.start()._jsq


class _Refused(Exception):
    """The batch that would have begun after the user asked to stop."""


class _Batches:
    """The body of foreachBatch; Spark calls it from a thread of its own."""

    def __init__(self, each_batch: EachBatch, progress: Progress, stop: StopSignal) -> None:
        self.each_batch = each_batch
        self.progress = progress
        self.stop = stop
        self.running: tuple[int, float] | None = None
        """The batch that runs, and since when."""
        self.done = -1
        self.error: BaseException | None = None
        """The error as it was raised: on its way through the JVM it becomes text."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.running = (batch_id, time.monotonic())
        try:
            if self.stop.is_set:
                raise _Refused
            counts = self.each_batch(frame, batch_id)
            self.progress.batch_done(batch_id, counts or Counts())
            self.done = batch_id
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.running = None


class _Query:
    """A query that runs, seen from the main thread."""

    def __init__(self, query: Any, batches: _Batches, progress: Progress) -> None:
        self.query = query
        self.batches = batches
        self.progress = progress
        self.committed = -1
        self._last_told: tuple[int, str] | None = None
        self._said_stopping = False

    def follow(self, stop: StopSignal) -> None:
        try:
            while not self.query.awaitTermination(POLL_MS):
                self._tell()
                if stop.is_set:
                    self._stop_when_safe()
        except Exception:
            self._stop_if_it_runs()
            if self.batches.error is None:
                raise
            if not isinstance(self.batches.error, _Refused):
                raise self.batches.error from None
        self._tell()

    def _stop_if_it_runs(self) -> None:
        """Stops the query if it was not Spark that failed but we."""
        try:
            self.query.stop()
        except SPARK_ERRORS:
            pass  # the JVM is gone, and the query with it

    def _stop_when_safe(self) -> None:
        if self.batches.running is None and self.batches.done <= self.committed:
            self.query.stop()
        elif not self._said_stopping:
            self._said_stopping = True
            name = self.progress.summary.name
            self.progress.say(f"{name} stops when the batch is done; press Ctrl-C again to end it at once")

    def _tell(self) -> None:
        for told in self._new_progress():
            # Spark reports a batch when it is committed; a trigger that found nothing, too, but without addBatch.
            if "addBatch" in told["durationMs"]:
                self.committed = told["batchId"]
            self.progress.query_progressed(told)
        if (running := self.batches.running) is not None:
            self.progress.batch_runs(running[0], time.monotonic() - running[1])

    def _new_progress(self) -> list[dict[str, Any]]:
        """Returns what Spark reported since the last call."""
        new: list[dict[str, Any]] = []
        recent = self.query.recentProgress()
        for index in reversed(range(len(recent))):
            told = json.loads(recent[index].json())
            if (told["batchId"], told["timestamp"]) == self._last_told:
                break
            new.insert(0, told)
        if new:
            self._last_told = (new[-1]["batchId"], new[-1]["timestamp"])
        return new
