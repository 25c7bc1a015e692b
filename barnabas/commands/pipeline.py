"""`barnabas pipeline NAME`: the Spark jobs in pipelines/, each with a command line of its own."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import ModuleType

from barnabas.options import Arguments, Command, Failure

JOBS = {
    "archive": (
        "keep topics as Parquet files, every record exactly once",
        "--topic orders --output ./archive",
        "--topic-pattern 'orders-.*' --output s3a://bucket/archive --once",
    ),
    "restore": (
        "write an archive back into topics",
        "--archive ./archive --source-topic orders --checkpoint ./restore",
    ),
    "mirror": (
        "copy topics to another cluster, partition by partition",
        "-b a:9092 --target-bootstrap-servers b:9092 --topic orders --checkpoint ./mirror",
    ),
    "rollup": (
        "count, sum and measure JSON events by windows of time",
        "--topic clicks --time-field at --window 1m --output ./out --checkpoint ./cp",
    ),
    "table": (
        "keep the latest value of every key as a Parquet table",
        "--topic customers --output ./customers",
    ),
    "audit": (
        "check a topic, or a topic and its copy: gaps, duplicates, differences, skew",
        "--topic orders --html orders.html",
        "-b a:9092 --topic orders --copy-bootstrap-servers b:9092 --copy-topic orders",
    ),
}


class Job(Command):
    """A Spark job. It parses its own options with argparse, because the same module also runs under spark-submit."""

    def parse(self, words: Sequence[str]) -> Arguments:
        return Arguments({"words": list(words)})

    def help(self) -> str:
        text: str = job_module(self.name.split()[1]).make_parser().format_help()
        return "\n".join([text.rstrip(), "", "examples:", *(f"  {example}" for example in self.examples), ""])


def job_module(name: str) -> ModuleType:
    from barnabas.pipelines.shared import failure
    from barnabas.pipelines.shared.spark import requirements

    try:
        requirements.require_pyspark()
    except failure.Failure as error:
        raise Failure(str(error)) from None
    return import_module(f"barnabas.pipelines.{name}")


def _run(name: str, arguments: Arguments) -> int:
    status: int = job_module(name).main(arguments.words)
    return status


COMMANDS = tuple(
    Job(
        f"pipeline {name}",
        summary,
        partial(_run, name),
        examples=tuple(f"barnabas pipeline {name} {words}" for words in examples),
    )
    for name, (summary, *examples) in JOBS.items()
)
