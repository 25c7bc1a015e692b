"""Runs a job from the command line: opens the session, and turns what went wrong into one line and an exit code."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines import logs
from barnabas.pipelines.failure import Failure
from barnabas.pipelines.session import close_session, open_session

Run = Callable[[SparkSession, argparse.Namespace], int]


def launch(module_run: Run, parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """0: done. 1: it could not be done. 2: the command line makes no sense. 130: interrupted."""
    options = parser.parse_args(arguments)
    try:
        spark = open_session(options.job, options)
        try:
            if options.log_file is not None:
                logs.keep_off_the_terminal(Path(options.log_file))
            return module_run(spark, options)
        finally:
            close_session(spark)
    except Failure as failure:
        logs.write_details(options.log_file, failure)
        print(f"{parser.prog}: {' '.join(str(failure).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
