"""Runs a streaming query until it is done, told to stop, or failed; a batch that runs is never cut short."""

import argparse
import json
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.pipelines.failure import Failure
from barnabas.pipelines.progress import Counts, Progress, Summary

POLL_MS = 200

EachBatch = Callable[[DataFrame, int], Counts | None]


class Stopping(Exception):
    """Refuses the batch that would begin after the user asked to stop. It runs again on the next start."""


class Batches:
    """The body of foreachBatch: counts, keeps what went wrong, and refuses to begin once stopping."""

    def __init__(self, each_batch: EachBatch, progress: Progress) -> None:
        self.each_batch = each_batch
        self.progress = progress
        self.stopping = False
        self.running = False
        self.last_id = -1
        self.error: BaseException | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if self.stopping:
            raise Stopping
        self.running = True
        try:
            counts = self.each_batch(frame, batch_id)
            self.progress.batch_done(counts or Counts())
            self.last_id = batch_id
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.running = False


def run_stream(
    frame: DataFrame,
    each_batch: EachBatch,
    options: argparse.Namespace,
    *,
    name: str,
    output_mode: str = "append",
    progress: Progress | None = None,
) -> Summary:
    progress = progress or Progress(name)
    batches = Batches(each_batch, progress)
    writer = frame.writeStream.queryName(name).outputMode(output_mode).foreachBatch(batches)
    writer = writer.trigger(availableNow=True) if options.once else writer.trigger(processingTime=_interval(options))
    if options.checkpoint is not None:
        writer = writer.option("checkpointLocation", options.checkpoint)

    def stop(_number: int, _frame: FrameType | None) -> None:
        if batches.stopping:
            raise KeyboardInterrupt
        batches.stopping = True

    in_main = threading.current_thread() is threading.main_thread()
    previous = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)} if in_main else {}
    try:
        query = writer.start()
        _follow(query, batches, progress)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    summary = progress.finish()
    summary.stopped = batches.stopping
    return summary


def _interval(options: argparse.Namespace) -> str:
    return f"{int(options.every.total_seconds() * 1000)} milliseconds"


def _follow(query: StreamingQuery, batches: Batches, progress: Progress) -> None:
    seen = ""
    jsq: Any = query._jsq
    while True:
        try:
            ended = jsq.awaitTermination(POLL_MS)
        except (PySparkException, Py4JJavaError) as error:
            if isinstance(batches.error, Failure):
                raise batches.error from None
            if batches.stopping and batches.error is None:
                return
            raise Failure(str(batches.error or error).splitlines()[0]) from error
        for each in jsq.recentProgress():
            text = each.json()
            told = json.loads(text)
            if told["timestamp"] > seen:
                seen = told["timestamp"]
                progress.query_progressed(told)
        if ended:
            return
        if batches.stopping and not batches.running:
            query.stop()
