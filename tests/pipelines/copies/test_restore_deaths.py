"""An executor that is killed in the middle of a restore: Spark starts its task again, and must not write twice."""

import os
import signal
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines import archive, restore
from tests.pipelines.copies.topics import Topic, is_writing
from tests.pipelines.gated_broker import GatedBroker
from tests.pipelines.jobs import running_job
from tests.pipelines.parquet.test_archive_deaths import executors
from tests.pipelines.records import create_topic

# A request for each record, so that the gate lets some of them through and not all or none.
SMALL_REQUESTS = ("--kafka", "batch.size=1", "--kafka", "linger.ms=0")
REQUEST_BYTES_MIN = 100
RECORDS = 10_000
LIMIT_BYTES = RECORDS // 4 * REQUEST_BYTES_MIN
"""For at most two producers: half of the records, or more, do not arrive."""
ONE_EXECUTOR = "local-cluster[1,2,1024]"


def test_a_killed_executor_ends_the_restore_and_the_next_run_completes_it(
    gated_broker: GatedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    create_topic(gated_broker.bootstrap_servers, "orders", 2)
    orders, restored = Topic(gated_broker, "orders"), Topic(gated_broker, "restored")
    orders.produce(RECORDS)
    cluster = ["--bootstrap-servers", orders.bootstrap]
    archiving = [*cluster, "--topic", "orders", "--output", str(tmp_path / "archive"), "--once"]
    assert archive.run(spark, archive.make_parser().parse_args(archiving)) == 0
    words = [*cluster, "--archive", str(tmp_path / "archive"), "--source-topic", "orders", "--topic", "restored"]
    words += ["--checkpoint", str(tmp_path / "checkpoint")]
    restoring = running_job(
        tmp_path / "job",
        *("pipeline", "restore", *words, *SMALL_REQUESTS),
        master=ONE_EXECUTOR,
        conf={"spark.task.maxFailures": "2"},
    )
    with gated_broker.gate.narrowed(sent=LIMIT_BYTES), restoring as job:
        job.wait_until(lambda: restored.count() > 500)
        (executor,) = executors(job)
        os.kill(executor, signal.SIGKILL)
        assert job.wait() == 1
        assert "Lost executor" in job.log()
        assert "Spark started a task again, which would write records twice: run the job again" in job.output()
    assert is_writing(tmp_path / "checkpoint")
    assert 500 < restored.count() < RECORDS
    assert restore.run(spark, restore.make_parser().parse_args(words)) == 0
    assert restored.records() == orders.records()
