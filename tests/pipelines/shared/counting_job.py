"""A job that counts: what every job has, and nothing more. Run it with `python -m`, or with spark-submit."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.progress import Counts
from barnabas.pipelines.shared.spark.launch import launch
from barnabas.pipelines.shared.stream import run_stream


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser("counting", "Counts the records of topics.", streaming=True)
    common.add_topics(parser)
    parser.add_argument("--output", type=Path, required=True, help="a line for each batch, when it is done")
    parser.add_argument("--batch-lasts", type=common.duration, default="0s")
    return parser


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    def each_batch(batch: DataFrame, batch_id: int) -> Counts:
        _add(options.output, f"begin {batch_id}")
        time.sleep(options.batch_lasts.total_seconds())
        count = batch.count()
        _add(options.output, f"end {batch_id} {count}")
        return Counts(rows_out=count)

    with Cluster(spark, common.kafka_settings(options)) as cluster:
        missing = set(options.topic) - set(cluster.topics(options.topic))
    if missing:
        raise Failure(f"there is no topic {', '.join(missing)} on {options.bootstrap_servers}")
    source = spark.readStream.format("kafka").options(**common.source_settings(options)).load()
    run_stream(source, each_batch, options, name="counting")
    return 0


def _add(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
