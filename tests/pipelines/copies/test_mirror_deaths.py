"""Real processes that die while a topic is mirrored: both brokers, then the job with everything it started.

`test_restore_deaths.py` kills an executor: what happens then is the same for both jobs.
"""

from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.pipelines import mirror
from tests.pipelines.copies.topics import Topic, is_writing
from tests.pipelines.gated_broker import GatedBroker
from tests.pipelines.jobs import running_job
from tests.pipelines.records import create_topic
from tests.processes.broker_process import BrokerProcess

# A request for each record, so that the gate lets some of them through and not all or none.
SMALL_REQUESTS = ("--target-kafka", "batch.size=1", "--target-kafka", "linger.ms=0")
# Nobody holds many records on their way: the source, too, is in use until the end.
SMALL_BUFFERS = ("--target-kafka", "buffer.memory=32768", "--kafka", "max.partition.fetch.bytes=4096")
REQUEST_BYTES_MIN = 100
RECORDS = 20_000
LIMIT_BYTES = RECORDS // 5 * REQUEST_BYTES_MIN
"""Two producers at most, before the target is killed and after it: a fifth of the records, or more, stays behind."""


def test_whatever_is_killed_every_record_is_mirrored_once_and_in_order(
    own_broker: BrokerProcess, gated_broker: GatedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    create_topic(own_broker.bootstrap_servers, "orders", 2)
    orders, copy = Topic(own_broker, "orders"), Topic(gated_broker, "orders")
    orders.produce(RECORDS)
    words = ["--bootstrap-servers", orders.bootstrap, "--target-bootstrap-servers", copy.bootstrap]
    words += ["--topic", "orders", "--checkpoint", str(tmp_path / "checkpoint")]
    mirroring = running_job(tmp_path / "job", "pipeline", "mirror", *words, *SMALL_REQUESTS, *SMALL_BUFFERS)
    with gated_broker.gate.narrowed(sent=LIMIT_BYTES), mirroring as job:
        job.wait_until(lambda: copy.count() > 500)
        gated_broker.kill()
        gated_broker.start()
        job.wait_until(lambda: copy.count() > 1000)
        own_broker.kill()
        own_broker.start()
        job.wait_until(lambda: copy.count() > 1500)
        job.kill()
    assert is_writing(tmp_path / "checkpoint")
    assert 1500 < copy.count() < RECORDS
    assert mirror.run(spark, mirror.make_parser().parse_args([*words, "--once"])) == 0
    assert copy.records() == orders.records()
