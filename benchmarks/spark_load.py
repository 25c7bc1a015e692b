"""What Spark gets out of a broker: a batch read through its own Kafka source, then the `archive` job, of one topic.

`python -m benchmarks.spark_load address=… topic=… warm_up=… records=… record_bytes=… crc32_sum=…`, to the rules of
native/load.h, except that `go` comes twice. Both were done once with the topic `warm_up` before it says that it
is ready. `crc32_sum` is that of all values, as their producer computed it.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from barnabas.pipelines import archive
from barnabas.pipelines.shared.spark import logs
from barnabas.pipelines.shared.spark.session import session
from benchmarks.systems import ROOT

JARS = ROOT / ".cache" / "spark-kafka-4.0.0" / "libs"


class Wrong(Exception):
    """What was read is not what was written."""


class Content(NamedTuple):
    """The count, size and checksum of all values of a topic, in any order."""

    records: int
    bytes: int
    crc32_sum: int


Check = Callable[[Content], None]


def content(rows: DataFrame) -> Content:
    """Adds up every byte of every value where it is read."""
    found = rows.select(f.count("*"), f.sum(f.length("value")), f.sum(f.crc32("value"))).first()
    return Content(*(number or 0 for number in found or (0, 0, 0)))


def compare(who: str, found: Content, expected: Content) -> None:
    if found[:2] != expected[:2]:
        raise Wrong(f"{who} {found.records:,} records of {found.bytes:,} bytes, not {expected.records:,}")
    if found.crc32_sum != expected.crc32_sum:
        raise Wrong(f"{who} as many records and bytes as were written, but not the same")


def read(spark: SparkSession, address: str, topic: str) -> Check:
    """Returns the check."""
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", topic)
    found = content(source.load())
    return lambda expected: compare("Spark read", found, expected)


def archived(spark: SparkSession, address: str, topic: str, folder: str) -> Check:
    words = ["--bootstrap-servers", address, "--topic", topic, "--output", folder, "--once"]
    if archive.run(spark, archive.make_parser().parse_args(words)):
        raise Wrong("the archive job failed")

    def check(expected: Content) -> None:
        offsets = ds.dataset(folder, partitioning="hive").to_table(columns=["partition", "offset"])
        once = offsets.group_by(["partition"]).aggregate([("offset", "count_distinct"), ("offset", "count")])
        found = [pc.sum(once[name]).as_py() for name in ("offset_count_distinct", "offset_count")]
        if found != [expected.records] * 2:
            raise Wrong(f"the archive has {found[1]:,} records with {found[0]:,} offsets")
        compare("the archive has", content(spark.read.parquet(folder)), expected)

    return check


def timed(work: Callable[[], Check], expected: Content) -> None:
    if not sys.stdin.readline():
        sys.exit(3)
    started = time.perf_counter()
    check = work()
    seconds = time.perf_counter() - started
    check(expected)
    tell({"seconds": seconds, "records": expected.records, "bytes": expected.bytes})


def tell(found: dict[str, object]) -> None:
    print(json.dumps(found), file=sys.__stdout__, flush=True)


def measure(folder: Path, options: dict[str, str]) -> None:
    address, topic, warm_up = options["address"], options["topic"], options["warm_up"]
    records = int(options["records"])
    expected = Content(records, records * int(options["record_bytes"]), int(options["crc32_sum"]))
    words = ["--bootstrap-servers", address, "--topic", topic, "--output", str(folder / "archive")]
    words += ["--log-file", str(folder / "log"), *(["--jars-folder", str(JARS)] if JARS.is_dir() else [])]
    asked = archive.make_parser().parse_args(words)
    with (
        session("benchmark", asked) as spark,
        (folder / "out").open("w") as out,
        redirect_stderr(out),
        redirect_stdout(out),
    ):
        logs.keep_off_the_terminal(Path(asked.log_file))
        read(spark, address, warm_up)
        archived(spark, address, warm_up, str(folder / "warm-up"))
        print("ready", file=sys.__stdout__, flush=True)
        timed(lambda: read(spark, address, topic), expected)
        timed(lambda: archived(spark, address, topic, str(folder / "archive")), expected)


def main() -> int:
    options = dict(word.split("=", 1) for word in sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-spark-", dir=options["folder"]))
    try:
        measure(folder, options)
        return 0
    except Exception as error:
        tell({"error": f"Spark: {type(error).__name__}: {' '.join(str(error).split())[:500]}"})
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
