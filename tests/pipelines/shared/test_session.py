"""Sessions and whole jobs, as processes: what the terminal shows, where logs go, how Ctrl-C ends them."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.spark.connector import installed_spark
from barnabas.pipelines.shared.spark.logs import KEPT_PER_JOB, new_log_file, state_folder
from barnabas.pipelines.shared.spark.session import session_settings
from tests.pipelines.conftest import JARS
from tests.pipelines.jobs import QUICK, ROOT, running_job
from tests.pipelines.records import Record, produce
from tests.processes.broker_process import BrokerProcess

NewTopic = Callable[..., str]
JOB = "tests.pipelines.shared.counting_job"
STOPPING = "counting stops when the batch is done; press Ctrl-C again to end it at once"


def words(broker: BrokerProcess, topic: str, folder: Path) -> list[str]:
    where = ["--bootstrap-servers", broker.bootstrap_servers, "--topic", topic]
    return [*where, "--checkpoint", str(folder / "checkpoint"), "--output", str(folder / "out")]


def parsed(*words: str) -> argparse.Namespace:
    return common.parser("try", "", streaming=False).parse_args(["--bootstrap-servers", "x", *words])


def test_a_session_is_in_utc_and_on_loopback(spark: SparkSession) -> None:
    assert spark.sql("SELECT current_timezone()").first() == ("UTC",)
    conf = spark.sparkContext.getConf()
    assert (conf.get("spark.driver.host"), conf.get("spark.driver.bindAddress")) == ("127.0.0.1", "127.0.0.1")


def test_the_users_settings_decide_and_lists_are_joined(tmp_path: Path) -> None:
    given = parsed("--conf", "spark.jars=s3a://mine.jar", "--conf", "spark.driver.extraJavaOptions=-Xss8m")
    settings = session_settings("try", given, tmp_path / "log")
    assert settings["spark.jars"].split(",") == [*(jar.as_uri() for jar in _in_order(JARS)), "s3a://mine.jar"]
    assert settings["spark.driver.extraJavaOptions"].endswith(f'"-Dbarnabas.log.file={tmp_path}/log" -Xss8m')
    given = parsed("--master", "spark://master:7077", "--conf", "spark.sql.session.timeZone=Asia/Tokyo")
    settings = session_settings("try", given, tmp_path / "log")
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert "spark.driver.host" not in settings  # executors elsewhere could not reach loopback


def _in_order(folder: Path) -> list[Path]:
    begins = ("spark-sql-kafka", "spark-token", "kafka-clients", "commons-pool2")
    return [jar for begin in begins for jar in folder.glob(f"{begin}*")]


def test_log_files_have_a_folder_of_their_own_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state_folder().mkdir(parents=True)
    old = [state_folder() / f"archive-20250101-0000{number:02}-1.log" for number in range(KEPT_PER_JOB + 5)]
    other = state_folder() / "mirror-20240101-000000-1.log"
    for path in [*old, other, Path(f"{old[0]}.1")]:
        path.touch()
    new_log_file("archive", None).touch()
    left = sorted(state_folder().iterdir())
    assert left[: KEPT_PER_JOB - 1] == old[-KEPT_PER_JOB + 1 :]
    assert left[-1] == other
    assert len(left) == KEPT_PER_JOB + 1


def test_a_log_file_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match=f"{tmp_path}/file: .*; name another file with --log-file"):
        new_log_file("archive", str(tmp_path / "file" / "log"))


def test_ctrl_c_finishes_the_batch_and_the_terminal_shows_only_our_lines(
    broker: BrokerProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, out = new_topic(), tmp_path / "out"
    produce(broker.bootstrap_servers, topic, [Record(value=b"x")] * 3)
    with running_job(tmp_path / "job", *words(broker, topic, tmp_path), "--batch-lasts", "1s", module=JOB) as job:
        job.wait_until(lambda: out.exists() and "begin 0" in out.read_text())
        jvm = children(job.pid)
        job.interrupt()
        assert job.wait() == 0
    assert out.read_text() == "begin 0\nend 0 3\n"
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    told = job.output().splitlines()
    assert told[0] == STOPPING
    assert " counting: batch 0 · " in told[1]
    assert told[2].startswith("counting stopped: 1 batch, 3 rows in, 3 out, ")
    assert len(told) == 3
    assert "ResolveWriteToStream" in job.log()  # what Spark said instead
    assert jvm
    assert not any(Path(f"/proc/{pid}").exists() for pid in jvm)
    assert not any((tmp_path / "job" / "local").iterdir())
    assert not (tmp_path / "job" / "artifacts").exists()  # Spark 4.0.0 would leave it in the current directory


def test_ctrl_c_while_spark_starts_ends_a_job_without_a_word(broker: BrokerProcess, tmp_path: Path) -> None:
    with running_job(tmp_path / "job", *words(broker, "none", tmp_path), module=JOB) as job:
        # Spark makes it while Python waits for the context.
        job.wait_until(lambda: any((tmp_path / "job" / "local").glob("blockmgr-*")))
        job.interrupt()
        assert job.wait(15) == 130
    assert job.output() == ""


def test_a_second_ctrl_c_ends_a_job_at_once(broker: BrokerProcess, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, out = new_topic(), tmp_path / "out"
    produce(broker.bootstrap_servers, topic, [Record(value=b"x")] * 3)
    with running_job(tmp_path / "job", *words(broker, topic, tmp_path), "--batch-lasts", "1h", module=JOB) as job:
        job.wait_until(lambda: out.exists() and "begin 0" in out.read_text())
        jvm = children(job.pid)
        job.interrupt()
        job.wait_until(lambda: job.output() == f"{STOPPING}\n")
        job.interrupt()
        assert job.wait(15) == 130
    assert job.output() == f"{STOPPING}\n"
    assert not any(Path(f"/proc/{pid}").exists() for pid in jvm)


def test_a_jvm_that_is_killed_is_told(broker: BrokerProcess, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, out = new_topic(), tmp_path / "out"
    produce(broker.bootstrap_servers, topic, [Record(value=b"x")] * 3)
    with running_job(tmp_path / "job", *words(broker, topic, tmp_path), "--batch-lasts", "1h", module=JOB) as job:
        job.wait_until(lambda: out.exists() and "begin 0" in out.read_text())
        for pid in children(job.pid):
            os.kill(pid, signal.SIGKILL)
        assert job.wait(15) == 1
    assert job.output().startswith("barnabas pipeline counting: Spark's JVM has died: it was killed, or ")
    assert job.output().count("\n") == 1
    assert not (tmp_path / "job" / "artifacts").exists()


def test_under_spark_submit_a_missing_connector_is_told(tmp_path: Path) -> None:
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    command += [word for key, value in QUICK.items() for word in ("--conf", f"{key}={value}")]
    command += [
        str(ROOT / "tests" / "pipelines" / "shared" / "counting_job.py"),
        "--bootstrap-servers",
        "x",
        "--topic",
        "x",
    ]
    command += ["--checkpoint", "x"]
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([*command, "--output", "x"], capture_output=True, text=True, env=variables, cwd=tmp_path)
    assert done.returncode == 1
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("barnabas")]
    add = f"add --packages {installed_spark().connector} to spark-submit"
    assert told == [f"barnabas pipeline counting: Spark's Kafka connector is missing: {add}"]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
