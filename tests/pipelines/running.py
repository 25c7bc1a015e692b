"""A streaming job on the shared session, in a thread of its own."""

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.failure import Failure

DEADLINE_S = 60


class Running:
    def __init__(self, spark: SparkSession, job: ModuleType, options: argparse.Namespace) -> None:
        self.error: BaseException | None = None
        self._spark = spark
        self._name = options.job
        self._thread = threading.Thread(target=self._run, args=(job, options))
        self._thread.start()

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert self._thread.is_alive(), f"the job has ended: {self.error!r}"
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    def failure(self) -> str:
        """What ended the job."""
        self._thread.join(DEADLINE_S)
        assert isinstance(self.error, Failure), self.error
        return str(self.error)

    def stop(self) -> None:
        while self._thread.is_alive():
            for query in self._spark.streams.active:
                if query.name == self._name:
                    query.stop()
            self._thread.join(0.1)

    def _run(self, job: ModuleType, options: argparse.Namespace) -> None:
        try:
            job.run(self._spark, options)
        except BaseException as error:
            self.error = error


@contextmanager
def running(spark: SparkSession, job: ModuleType, *words: str) -> Iterator[Running]:
    started = Running(spark, job, job.make_parser().parse_args(words))
    try:
        yield started
    finally:
        started.stop()
