"""Batch and streaming writes: columns and options, compression, acknowledgements, sizes, and what is refused."""

from pathlib import Path

import pytest

from compat_tests.conftest import Restartable
from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.segments import COMPRESSIONS, compressions_in
from compat_tests.spark.session import AVAILABLE_NOW, EARLIEST, NewTopic, Spark

ROWS = """
    SELECT /*+ COALESCE(1) */ * FROM VALUES
        (0, binary('key'), binary('value'), array(named_struct('key', 'name', 'value', binary('text')))),
        (1, null, binary('no key'), null),
        (1, binary('tombstone'), null, array()),
        (0, binary(''), binary(''), array(
            named_struct('key', 'nothing', 'value', cast(null AS binary)), named_struct('key', '', 'value', X''))),
        (1, X'FFFE', X'00FF', array(
            named_struct('key', 'twice', 'value', X'01'), named_struct('key', 'twice', 'value', X'02')))
    AS rows (partition, key, value, headers)
"""
WRITTEN = [
    Record(b"key", b"value", (("name", b"text"),), partition=0, offset=0),
    Record(b"", b"", (("nothing", None), ("", b"")), partition=0, offset=1),
    Record(None, b"no key", (), partition=1, offset=0),
    Record(b"tombstone", None, (), partition=1, offset=1),
    Record(b"\xff\xfe", b"\x00\xff", (("twice", b"\x01"), ("twice", b"\x02")), partition=1, offset=2),
]


def test_every_column_is_written(spark: Spark, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    spark.write(f"SELECT *, '{topic.name}' AS topic FROM ({ROWS})", includeHeaders=True)
    assert [record._replace(timestamp=None) for record in topic.read(len(WRITTEN), (0, 1))] == WRITTEN


def test_the_topic_option_overrides_the_column(spark: Spark, new_topic: NewTopic) -> None:
    topic, other = new_topic(), new_topic(1, "-other")
    spark.write(f"SELECT '{other.name}' AS topic, 'v' AS value", topic=topic.name)
    assert topic.values(1) == [b"v"]
    assert other.offsets() == (0, 0)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_batches_are_compressed(spark: Spark, new_topic: NewTopic, restartable: Restartable, compression: str) -> None:
    topic = new_topic()
    spark.write(
        "SELECT repeat('Barnabas ', 1000) AS value FROM range(3)",
        topic=topic.name,
        **{"kafka.compression.type": compression},
    )
    assert compressions_in(restartable.broker.first_segment(topic.name)) == {compression}
    values = [row.value for row in spark.read(subscribe=topic.name)]
    assert values == topic.values(3) == [b"Barnabas " * 1000] * 3


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_whatever_acknowledgement_is_asked_for(spark: Spark, new_topic: NewTopic, acks: str) -> None:
    topic = new_topic()
    idempotent = "true" if acks == "all" else "false"
    settings = {"kafka.acks": acks, "kafka.enable.idempotence": idempotent}
    spark.write("SELECT '' || id AS value FROM range(0, 100, 1, 1)", topic=topic.name, **settings)
    assert topic.values(100) == [b"%d" % number for number in range(100)]


MEGABYTE = 1024 * 1024


def test_large_records_are_written_and_read(spark: Spark, new_topic: NewTopic) -> None:
    topic = new_topic()
    sizes = [MEGABYTE, 5 * MEGABYTE, 1, 10 * MEGABYTE]
    spark.write(
        f"SELECT repeat('x', size) AS value FROM (SELECT explode(array{tuple(sizes)}) AS size)",
        topic=topic.name,
        **{"kafka.max.request.size": 12 * MEGABYTE, "kafka.compression.type": "none"},
    )
    assert [len(row.value or b"") for row in spark.read(subscribe=topic.name)] == sizes


def test_what_the_broker_refuses_is_an_error(spark: Spark, new_topic: NewTopic) -> None:
    topic = new_topic(**{"max.message.bytes": 1000})
    with pytest.raises(DriverError, match="RecordTooLargeException"):
        spark.write("SELECT repeat('x', 2000) AS value", topic=topic.name)
    assert topic.offsets() == (0, 0)

    with pytest.raises(DriverError, match=f"Topic {topic.name} not present in metadata after 500 ms"):
        spark.write("SELECT 'v' AS value, 5 AS partition", topic=topic.name, **{"kafka.max.block.ms": 500})


def test_a_topic_is_created_by_the_first_record(spark: Spark, writer: Driver) -> None:
    spark.write("SELECT 'v' AS value", topic="written-first")
    assert writer.ask("describe_topic", topic="written-first") == {"partitions": 1}
    assert [record.value for record in writer.consume("written-first", 1, start={"offset": 0})] == [b"v"]


def test_a_stream_writes_keys_values_headers_and_partitions(spark: Spark, new_topic: NewTopic, tmp_path: Path) -> None:
    source, sink = new_topic(2, "-source"), new_topic(2, "-sink")
    headers = (("name", b"text"), ("nothing", None))
    source.append([Record(b"k", b"0", headers), Record(None, b"1", (), partition=1), Record(b"t", None, ())])
    columns = ("key", "value", "headers", "1 - partition AS partition", f"'{sink.name}' AS topic")
    settings = {"subscribe": source.name, "includeHeaders": True, **EARLIEST}

    def copy() -> None:
        query = spark.start(tmp_path, AVAILABLE_NOW, columns, {"includeHeaders": True}, **settings)
        assert query.wait_until_ended().failure is None

    copy()
    source.append([Record(b"k", b"2", ())])
    copy()  # goes on from the checkpoint: nothing is written twice
    assert [record._replace(timestamp=None) for record in sink.read(4, (0, 1))] == [
        Record(None, b"1", (), partition=0, offset=0),
        Record(b"k", b"0", headers, partition=1, offset=0),
        Record(b"t", None, (), partition=1, offset=1),
        Record(b"k", b"2", (), partition=1, offset=2),
    ]
