"""Runs a job from the command line: opens the session, and turns what went wrong into one line and an exit code."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.explain import SPARK_ERRORS, explain
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.options import bootstrap_servers
from barnabas.pipelines.shared.progress import status
from barnabas.pipelines.shared.spark import logs
from barnabas.pipelines.shared.spark.reach import require_brokers
from barnabas.pipelines.shared.spark.session import session, under_spark_submit

Run = Callable[[SparkSession, argparse.Namespace], int]
Servers = Callable[[argparse.Namespace], Mapping[str, str]]
"""Returns the addresses of a job's clusters, by the option that names them."""


def launch(
    module_run: Run,
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    servers: Servers = bootstrap_servers,
) -> int:
    """Returns 0 if all is done, 1 for a failure, 2 for a wrong command line, 130 if interrupted."""
    options = parser.parse_args(arguments)
    try:
        try:
            require_brokers(servers(options))
            return _run(module_run, options)
        except SPARK_ERRORS as error:
            raise explain(error) from error
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error
    except Failure as failure:
        logs.write_details(options.log_file, failure)
        more = f" (details: {options.log_file})" if failure.__cause__ is not None and options.log_file else ""
        print(f"{parser.prog}: {' '.join(str(failure).split())}{more}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(module_run: Run, options: argparse.Namespace) -> int:
    if not under_spark_submit():
        # Before Spark starts: an interrupt while it does would make py4j write to the terminal.
        options.log_file = str(logs.new_log_file(options.job, options.log_file))
        logs.keep_off_the_terminal(Path(options.log_file))
    with ExitStack() as stack:
        with status(f"{options.job}: starting Spark"):
            spark = stack.enter_context(session(options.job, options))
        return module_run(spark, options)
