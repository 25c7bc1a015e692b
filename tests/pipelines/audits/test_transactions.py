"""Topics of Apache Kafka that were written in transactions: their markers take offsets that no reader is shown."""

import time
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import SparkSession

from barnabas.pipelines import archive, audit
from tests.pipelines.audits.test_audit import Audit
from tests.pipelines.records import Record, create_topic, produce

TIMEOUT_S = 60


def begin_transaction(kafka: str, topic: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, name, partition=0)
    producer.flush(TIMEOUT_S)
    return producer


def wait_for_end(kafka: str, topic: str, offset: int) -> None:
    """Kafka writes a marker some time after it has said that the transaction is done."""
    admin, place = AdminClient({"bootstrap.servers": kafka}), TopicPartition(topic, 0)
    deadline = time.monotonic() + TIMEOUT_S
    while admin.list_offsets({place: OffsetSpec.latest()})[place].result(TIMEOUT_S).offset < offset:
        assert time.monotonic() < deadline, "the markers were not written"
        time.sleep(0.02)


def test_markers_are_no_loss_however_many_stand_together(kafka: str, spark: SparkSession, tmp_path: Path) -> None:
    auditing, folder = Audit(spark, kafka, tmp_path), tmp_path / "archive"
    create_topic(kafka, "audited-payments")
    first, second, third = (begin_transaction(kafka, "audited-payments", name) for name in ("a", "b", "c"))
    first.commit_transaction(TIMEOUT_S)
    second.commit_transaction(TIMEOUT_S)
    third.abort_transaction(TIMEOUT_S)
    wait_for_end(kafka, "audited-payments", 6)
    produce(kafka, "audited-payments", [Record(None, b"behind")])
    assert auditing.run("--topic", "audited-payments") == 0
    [(title, note)] = auditing.found().items()
    assert (title, note["count"]) == ("note: offsets of transaction markers", 3)
    assert note["examples"] == [{"partition": 0, "from_offset": 3, "to_offset": 5, "offsets": 3}]
    assert auditing.run("--topic", "audited-payments", "--strict") == audit.FOUND

    words = ["--bootstrap-servers", kafka, "--topic", "audited-payments", "--output", str(folder), "--once"]
    assert archive.run(spark, archive.make_parser().parse_args(words)) == 0
    assert auditing.run("--topic", "audited-payments", "--archive", str(folder)) == 0
    [(title, note)] = auditing.found().items()
    assert (title, note["count"]) == ("note: offsets without a record", 4)  # what was aborted is not archived
