"""Apache Kafka's own command-line tools, unmodified, against the broker and against its files.

Every tool is a JVM of a second or two, so each test makes the most of one.
"""

import json
import re
from pathlib import Path

import pytest

from compat_tests.conftest import Drivers, require, start_broker
from compat_tests.harness import CLIENTS, KAFKA_LIBS, Broker, Driver, Record, kafka_tool

TOPIC = "tools"
TOOLS = "org.apache.kafka.tools."


@pytest.fixture(scope="module")
def server(broker: Broker) -> tuple[str, str]:
    require(("java", KAFKA_LIBS))
    return ("--bootstrap-server", broker.bootstrap)


@pytest.fixture(scope="module")
def topic(drivers: Drivers, now_ms: int) -> str:
    drivers["kafka-python-3"].ask("create_topic", topic=TOPIC, partitions=2, configs={})
    write_two_batches(drivers["kafka-python-3"], now_ms)
    return TOPIC


def write_two_batches(writer: Driver, now_ms: int) -> None:
    """Ten records with every offset and time known."""
    for first in (0, 5):
        records = [
            Record(key=b"k%d" % n, value=b"v%d" % n, headers=(("h", b"x"),), timestamp=now_ms + n)
            for n in range(first, first + 5)
        ]
        writer.produce(TOPIC, records, compression="gzip" if first else "none", idempotence=True)


def run(tool: str, *arguments: str, stdin: str = "") -> str:
    done = kafka_tool(tool, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topic_command_creates_and_describes(server: tuple[str, str]) -> None:
    run(
        f"{TOOLS}TopicCommand",
        *server,
        "--create",
        "--topic",
        "made",
        "--partitions",
        "3",
        "--config",
        "segment.ms=9000",
    )
    described = run(f"{TOOLS}TopicCommand", *server, "--describe", "--topic", "made")
    assert re.search(r"Topic: made\s+TopicId: \S{22}\s+PartitionCount: 3\s+ReplicationFactor: 1\s", described)
    assert "segment.ms=9000" in described
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1\s", described)) == 3


def test_what_the_console_producer_wrote_the_console_consumer_reads(server: tuple[str, str]) -> None:
    properties = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run(f"{TOOLS}ConsoleProducer", *server, "--topic", "console", *properties, stdin="a:first\nb:second\nc:third\n")
    where = ("--topic", "console", "--partition", "0", "--offset", "1", "--max-messages", "2")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    read = run(f"{TOOLS}consumer.ConsoleConsumer", *server, *where, *shown)
    assert read.splitlines() == ["Offset:1\tb\tsecond", "Offset:2\tc\tthird"]


def test_get_offset_shell_finds_the_ends(server: tuple[str, str], topic: str) -> None:
    assert run(f"{TOOLS}GetOffsetShell", *server, "--topic", topic).split() == [f"{topic}:0:10", f"{topic}:1:0"]


def test_dump_log_segments_reads_every_record(broker: Broker, topic: str, now_ms: int, server: tuple[str, str]) -> None:
    log = broker.data_dir / f"{topic}-0" / f"{0:020}.log"
    dump = run(f"{TOOLS}DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", str(log))
    records = re.findall(r"\| offset: (\d+) CreateTime: (\d+) .* key: (\S+) payload: (\S+)", dump)
    assert records == [(str(n), str(now_ms + n), f"k{n}", f"v{n}") for n in range(10)]
    assert re.findall(r"compresscodec: (\w+)", dump) == ["none", "gzip"]
    assert "isvalid: false" not in dump


def test_dump_log_segments_finds_the_indexes_sane_after_a_clean_stop(tmp_path: Path, now_ms: int) -> None:
    # While a segment is written to, Kafka's own indexes are longer than their entries and fail this check.
    require(("java", KAFKA_LIBS))
    with start_broker(tmp_path) as broker:
        writer = Driver(CLIENTS[0], broker.bootstrap, tmp_path / "driver.log")
        try:
            writer.ask("create_topic", topic=TOPIC, partitions=1, configs={"index.interval.bytes": "100"})
            write_two_batches(writer, now_ms)
        finally:
            writer.stop()
    log, *indexes = (str(broker.data_dir / f"{TOPIC}-0" / f"{0:020}.{kind}") for kind in ("log", "index", "timeindex"))
    dump = run(f"{TOOLS}DumpLogSegments", "--index-sanity-check", "--files", ",".join(indexes))
    assert dump.count("passed sanity check.") == 2
    dump = run(f"{TOOLS}DumpLogSegments", "--deep-iteration", "--files", ",".join((log, *indexes)))
    assert re.search(r"^offset: 9 position: \d\d+", dump, re.MULTILINE)
    assert re.search(rf"^timestamp: {now_ms + 9} offset: 9", dump, re.MULTILINE)
    assert "mismatch" not in dump.lower()


def test_dump_log_segments_decodes_the_cluster_metadata(broker: Broker, topic: str, server: tuple[str, str]) -> None:
    (log,) = (broker.data_dir / "__cluster_metadata-0").glob("*.log")
    dump = run(f"{TOOLS}DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log))
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{topic}"' in dump
    assert {"REGISTER_BROKER_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD"} <= set(
        re.findall(r'"type":"(\w+)"', dump)
    )


def test_delete_records_command_moves_the_beginning(server: tuple[str, str], drivers: Drivers, tmp_path: Path) -> None:
    drivers["kafka-python-3"].produce("shortened", [Record(value=b"%d" % number) for number in range(10)])
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"partitions": [{"topic": "shortened", "partition": 0, "offset": 4}], "version": 1}))
    said = run(f"{TOOLS}DeleteRecordsCommand", *server, "--offset-json-file", str(offsets))
    assert re.search(r"partition: shortened-0\s+low_watermark: 4", said)
    assert drivers["kafka-python-3"].offsets("shortened")["beginning"] == 4


def test_log_dirs_command_tells_the_sizes(broker: Broker, server: tuple[str, str], topic: str) -> None:
    said = run(f"{TOOLS}LogDirsCommand", *server, "--describe", "--topic-list", topic)
    (described,) = json.loads(said[said.index("{") :])["brokers"]
    (log_dir,) = described["logDirs"]
    sizes = {partition["partition"]: partition["size"] for partition in log_dir["partitions"]}
    log = broker.data_dir / f"{topic}-0" / f"{0:020}.log"
    assert (log_dir["logDir"], log_dir["error"]) == (str(broker.data_dir), None)
    assert sizes == {f"{topic}-0": log.stat().st_size, f"{topic}-1": 0}


def test_config_command_alters_and_describes(server: tuple[str, str], topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run("kafka.admin.ConfigCommand", *server, *entity, "--alter", "--add-config", "retention.ms=1234567890")
    described = run("kafka.admin.ConfigCommand", *server, *entity, "--describe")
    assert re.search(r"retention\.ms=1234567890 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention", described)


def test_config_command_alters_and_describes_groups(server: tuple[str, str]) -> None:
    entity = ("--entity-type", "groups", "--entity-name", "configured")
    key = "consumer.session.timeout.ms"
    said = run("kafka.admin.ConfigCommand", *server, *entity, "--alter", "--add-config", f"{key}=50000")
    assert "Completed updating config for group configured." in said
    described = run("kafka.admin.ConfigCommand", *server, *entity, "--describe")
    assert f"{key}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{key}=50000, " in described
    assert f"DEFAULT_CONFIG:group.{key}=45000}}" in described


def test_feature_command_finds_the_consumer_protocol_finalized(server: tuple[str, str]) -> None:
    said = run(f"{TOOLS}FeatureCommand", *server, "describe")
    assert re.search(
        r"group\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1\s", said
    )
    assert re.search(r"metadata\.version\s.*FinalizedVersionLevel: 4\.3-IV0\s", said)


def test_broker_api_versions_command_knows_every_api(server: tuple[str, str]) -> None:
    said = run(f"{TOOLS}BrokerApiVersionsCommand", *server)
    assert re.search(r"\(id: 1 rack: null isFenced: false\) -> \(", said)
    # A client of the same version finds a version in common for everything it needs, and nothing unknown.
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", said)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", said)
    assert not re.search(r"UNKNOWN\(", said)


def test_cluster_tool_and_producer_performance_work(server: tuple[str, str]) -> None:
    assert re.match(r"Cluster ID: \S{22}$", run(f"{TOOLS}ClusterTool", "cluster-id", *server).strip())
    load = ("--topic", "performance", "--num-records", "20000", "--record-size", "500", "--throughput", "-1")
    said = run(f"{TOOLS}ProducerPerformance", *load, *server)
    assert "20000 records sent" in said
