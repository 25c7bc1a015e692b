"""Sources with offsets that hold no record, because of transactions or compaction; Apache Kafka at either end."""

import time
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from barnabas.pipelines import archive, table
from tests.pipelines.copies.test_mirror import Mirroring
from tests.pipelines.records import Record, create_topic, produce, read
from tests.processes.broker_process import BrokerProcess

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
KEYS = 10
TIMEOUT_S = 60


def test_committed_records_of_apache_kafka_are_mirrored_and_aborted_ones_are_not(
    kafka: str, broker: BrokerProcess, spark: SparkSession, tmp_path: Path
) -> None:
    mirroring = Mirroring(spark, kafka, broker.bootstrap_servers, tmp_path)
    create_topic(kafka, "payments", 2, {"max.message.bytes": "2000000"})
    transactions(kafka, "payments", ["commit", "abort", "commit", "abort"])
    mirroring.run("--topic", "payments", "--max-offsets-per-trigger", "12")
    assert values(mirroring.target, "payments") == [[0, 2], [0, 2]]
    mirroring.forget_last_state()
    transactions(kafka, "payments", ["commit", "abort"])
    mirroring.run("--topic", "payments")
    assert values(mirroring.target, "payments") == [[0, 2, 0], [0, 2, 0]]


@pytest.mark.parametrize("begin", [4, 8])
def test_records_that_retention_removes_after_a_crash_were_copied(
    kafka: str, broker: BrokerProcess, spark: SparkSession, tmp_path: Path, begin: int
) -> None:
    topic = f"expired-{begin}"
    mirroring = Mirroring(spark, kafka, broker.bootstrap_servers, tmp_path)
    create_topic(kafka, topic, 2)
    transactions(kafka, topic, ["commit"] * 5)  # at offsets 0, 2, 4, 6 and 8
    mirroring.run("--topic", topic)
    mirroring.forget_last_state()
    admin = AdminClient({"bootstrap.servers": kafka})
    for deleted in admin.delete_records([TopicPartition(topic, partition, begin) for partition in (0, 1)]).values():
        deleted.result(TIMEOUT_S)
    mirroring.run("--topic", topic)
    assert values(mirroring.target, topic) == [[0, 1, 2, 3, 4]] * 2


def test_archives_and_tables_hold_committed_records_unless_told_otherwise(
    kafka: str, spark: SparkSession, tmp_path: Path
) -> None:
    create_topic(kafka, "refunds", 2)
    transactions(kafka, "refunds", ["commit", "commit", "abort"])

    def output(job: ModuleType, name: str, *words: str) -> list[int]:
        common = ["--bootstrap-servers", kafka, "--topic", "refunds", "--output", str(tmp_path / name), "--once"]
        assert job.run(spark, job.make_parser().parse_args([*common, *words])) == 0
        newest = tmp_path / name / "current" if job is table else tmp_path / name
        rows = spark.read.parquet(str(newest)).orderBy("partition", "offset").collect()
        return [int(row["value"]) for row in rows]

    assert output(archive, "archive") == [0, 1, 0, 1]
    assert output(archive, "all", "--kafka", "isolation.level=read_uncommitted") == [0, 1, 2, 0, 1, 2]
    assert output(table, "table") == [1]


def test_a_compacted_source_is_mirrored_to_apache_kafka_also_if_compaction_goes_on(
    kafka: str, spark: SparkSession, tmp_path: Path
) -> None:
    settings = {"auto.create.topics.enable": "false", "log.cleaner.backoff.ms": "50"}
    with BrokerProcess(tmp_path / "data", settings=settings) as source:
        mirroring = Mirroring(spark, source.bootstrap_servers, kafka, tmp_path)
        create_topic(mirroring.source, "prices", 1, COMPACTED)
        update_until_compacted(mirroring.source, 0)
        # The copy must stay as it is while the two are compared: what is in its last segment is not compacted.
        mirroring.run("--topic", "prices", "--topic-config", "segment.ms=")
        mirrored = prices(kafka)
        assert set(prices(mirroring.source)) <= set(mirrored)

        mirroring.forget_last_state()
        update_until_compacted(mirroring.source, 1000)
        mirroring.run("--topic", "prices")
        there = prices(kafka)
        assert there[: len(mirrored)] == mirrored
        assert there == sorted(set(there))
        assert there[-KEYS:] == prices(mirroring.source)[-KEYS:]


def transactions(bootstrap: str, topic: str, outcomes: list[str]) -> None:
    """Each writes its number to both partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "test"})
    producer.init_transactions(TIMEOUT_S)
    for number, outcome in enumerate(outcomes):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, b"key", partition=partition)
        producer.flush(TIMEOUT_S)
        if outcome == "commit":
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)


def values(bootstrap: str, topic: str) -> list[list[int]]:
    found: list[list[int]] = [[], []]
    for record in read(bootstrap, topic):
        found[record.partition].append(int(record.value or b""))
    return found


def update_until_compacted(bootstrap: str, first: int) -> None:
    """Ascending prices of few keys, until some of those from `first` on are gone."""
    deadline = time.monotonic() + TIMEOUT_S
    number = first
    while number == first or len([price for price in prices(bootstrap) if price >= first]) == number - first:
        assert time.monotonic() < deadline, "nothing was compacted"
        produce(bootstrap, "prices", [Record(b"%d" % (n % KEYS), b"%d" % n) for n in range(number, number + 5 * KEYS)])
        number += 5 * KEYS


def prices(bootstrap: str) -> list[int]:
    return [int(record.value or b"") for record in read(bootstrap, "prices")]
