"""An executor that is killed in the middle of a restore: Spark starts its task again, and must not write twice."""

import os
import signal
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines import archive, restore
from tests.pipelines.copies import Topic, is_writing, stopped
from tests.pipelines.jobs import running_job
from tests.pipelines.records import create_topic
from tests.pipelines.test_archive_deaths import executors
from tests.processes.broker_process import BrokerProcess

# A request for each record, and one after the other: no matter how fast the machine is, there is time to kill.
REQUESTS = ("batch.size=1", "linger.ms=0", "max.in.flight.requests.per.connection=1")
SLOW = tuple(word for setting in REQUESTS for word in ("--kafka", setting))
RECORDS = 10_000
ONE_EXECUTOR = "local-cluster[1,2,1024]"


def test_a_killed_executor_ends_the_restore_and_the_next_run_completes_it(
    own_broker: BrokerProcess, spark: SparkSession, tmp_path: Path
) -> None:
    create_topic(own_broker.bootstrap_servers, "orders", 2)
    orders, restored = Topic(own_broker, "orders"), Topic(own_broker, "restored")
    orders.produce(RECORDS)
    cluster = ["--bootstrap-servers", orders.bootstrap]
    archiving = [*cluster, "--topic", "orders", "--output", str(tmp_path / "archive"), "--once"]
    assert archive.run(spark, archive.make_parser().parse_args(archiving)) == 0
    words = [*cluster, "--archive", str(tmp_path / "archive"), "--source-topic", "orders", "--topic", "restored"]
    words += ["--checkpoint", str(tmp_path / "checkpoint")]
    retries = {"spark.task.maxFailures": "2"}
    with running_job(tmp_path / "job", "pipeline", "restore", *words, *SLOW, master=ONE_EXECUTOR, conf=retries) as job:
        job.wait_until(lambda: restored.count() > 500)
        with stopped(own_broker):  # no task can end now
            (executor,) = executors(job)
            os.kill(executor, signal.SIGKILL)
            job.wait_until(lambda: "Lost executor" in job.log())
        assert job.wait() == 1
        assert "Spark began a task again, which would write records twice: run the job again" in job.output()
    assert is_writing(tmp_path / "checkpoint")
    assert 500 < restored.count() < RECORDS
    assert restore.run(spark, restore.make_parser().parse_args(words)) == 0
    assert restored.records() == orders.records()
