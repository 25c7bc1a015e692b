"""Real processes that die while a topic is mirrored: both brokers, then the job with everything it started.

`test_restore_deaths.py` kills an executor: what happens then is the same for both jobs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines import mirror
from tests.pipelines.copies import Topic, is_writing, stopped
from tests.pipelines.jobs import running_job
from tests.pipelines.records import create_topic
from tests.processes.broker_process import BrokerProcess

# A request for each record, one after the other, and a poll for every few: however fast the machine is, or however slow
# the test, there is time to kill.
SLOW = ("--target-kafka", "batch.size=1", "--target-kafka", "linger.ms=0", "--kafka", "max.poll.records=50")
SLOW += ("--target-kafka", "max.in.flight.requests.per.connection=1")
RECORDS = 20_000


@pytest.fixture
def target(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", settings={"auto.create.topics.enable": "false"}) as process:
        yield process


def test_whatever_is_killed_every_record_is_mirrored_once_and_in_order(
    own_broker: BrokerProcess, target: BrokerProcess, spark: SparkSession, tmp_path: Path
) -> None:
    create_topic(own_broker.bootstrap_servers, "orders", 2)
    orders, copy = Topic(own_broker, "orders"), Topic(target, "orders")
    orders.produce(RECORDS)
    words = ["--bootstrap-servers", orders.bootstrap, "--target-bootstrap-servers", copy.bootstrap]
    words += ["--topic", "orders", "--checkpoint", str(tmp_path / "checkpoint")]
    with running_job(tmp_path / "job", "pipeline", "mirror", *words, *SLOW) as job:
        job.wait_until(lambda: copy.count() > 500)
        target.kill()
        target.start()
        job.wait_until(lambda: copy.count() > 1500)
        own_broker.kill()
        own_broker.start()
        job.wait_until(lambda: copy.count() > 2500)
        with stopped(target):  # nothing is acknowledged any more
            job.kill()
    assert is_writing(tmp_path / "checkpoint")
    assert 2500 < copy.count() < RECORDS
    assert mirror.run(spark, mirror.make_parser().parse_args([*words, "--once"])) == 0
    assert copy.records() == orders.records()
