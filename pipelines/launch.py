"""Runs a job from the command line: opens the session, and turns what went wrong into one line and an exit code."""

import argparse
import sys
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from barnabas.pipelines.failure import Failure
from barnabas.pipelines.session import open_session


def launch(
    module_run: Callable[[SparkSession, argparse.Namespace], int],
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
) -> int:
    """0: done. 1: it could not be done. 2: the command line makes no sense. 130: interrupted."""
    options = parser.parse_args(arguments)
    try:
        spark = open_session(options.job, options)
        try:
            return module_run(spark, options)
        finally:
            spark.stop()
    except Failure as failure:
        print(f"{parser.prog}: {' '.join(str(failure).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
