"""Kafka's DumpLogSegments on the files of a running broker. What its other tools say is in test_tools_compared.py."""

import re
from pathlib import Path

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers
from compat_tests.harness.driver import Record

TOPIC = "tools"


@pytest.fixture(scope="module")
def log(broker: Broker, drivers: Drivers, now_ms: int) -> Path:
    """Writes two batches, ten records, with every offset and time known."""
    writer = drivers["kafka-python-3"]
    writer.ask("create_topic", topic=TOPIC, partitions=1, configs={})
    for first in (0, 5):
        records = [
            Record(key=b"k%d" % n, value=b"v%d" % n, headers=(("h", b"x"),), timestamp=now_ms + n)
            for n in range(first, first + 5)
        ]
        writer.produce(TOPIC, records, compression="gzip" if first else "none", idempotence=True)
    return broker.log_dir(TOPIC) / f"{0:020}.log"


def dump(drivers: Drivers, file: Path, *options: str) -> str:
    arguments = ["--files", str(file), *options]
    done = drivers["java-4.3"].ask("tool", tool="org.apache.kafka.tools.DumpLogSegments", arguments=arguments)
    assert done["code"] == 0, done["complained"]
    printed: str = done["printed"]
    return printed


def test_every_record_is_read(drivers: Drivers, log: Path, now_ms: int) -> None:
    printed = dump(drivers, log, "--deep-iteration", "--print-data-log")
    records = re.findall(r"\| offset: (\d+) CreateTime: (\d+) .* key: (\S+) payload: (\S+)", printed)
    assert records == [(str(n), str(now_ms + n), f"k{n}", f"v{n}") for n in range(10)]
    assert re.findall(r"compresscodec: (\w+)", printed) == ["none", "gzip"]
    assert "isvalid: false" not in printed


def test_the_cluster_metadata_are_decoded(broker: Broker, drivers: Drivers, log: Path) -> None:
    del log  # a topic is there
    for data_dir in broker.data_dirs:
        (metadata,) = (data_dir / "__cluster_metadata-0").glob("*.log")
        printed = dump(drivers, metadata, "--cluster-metadata-decoder")
        assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{TOPIC}"' in printed
        assert {"REGISTER_BROKER_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD"} <= set(
            re.findall(r'"type":"(\w+)"', printed)
        )
