"""`barnabas pipeline NAME`: the Spark jobs in pipelines/, each with a command line of its own."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType

from barnabas.options import Arguments, Command, Failure

JOBS = {
    "archive": "keep topics as Parquet files, every record exactly once",
    "restore": "write an archive back into topics",
    "mirror": "copy topics to another cluster, partition by partition",
    "rollup": "count, sum and measure JSON events by windows of time",
    "table": "keep the latest value of every key as a Parquet table",
    "audit": "check a topic, or a topic and its copy: gaps, duplicates, differences, skew",
}


class Job(Command):
    """Its options are argparse's: the same module runs under spark-submit, without us."""

    def parse(self, words: Sequence[str]) -> Arguments:
        return Arguments({"words": list(words)})

    def help(self) -> str:
        parser: argparse.ArgumentParser = _module(self.name.split()[1]).make_parser()
        return parser.format_help()


def _run(name: str, arguments: Arguments) -> int:
    main: Callable[[list[str]], int] = _module(name).main
    return main(arguments.words)


def _module(name: str) -> ModuleType:
    from barnabas.pipelines import failure, requirements

    try:
        requirements.require_pyspark()
    except failure.Failure as error:
        raise Failure(str(error)) from None
    return import_module(f"barnabas.pipelines.{name}")


COMMANDS = tuple(Job(f"pipeline {name}", summary, partial(_run, name)) for name, summary in JOBS.items())
