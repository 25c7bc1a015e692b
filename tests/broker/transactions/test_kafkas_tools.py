"""Kafka's own tools read our `__transaction_state`, and ask our coordinator."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.testing import Broker
from tests.broker.transactions.calls import add, end, init
from tests.broker.wire import RawClient
from tests.kafka_jars import kafka_libs

CONFIG = {"transaction.state.log.num.partitions": "1"}


class Wrote(NamedTuple):
    data_dir: Path
    port: int
    producers: dict[str, Any]


@pytest.fixture(scope="module")
def wrote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wrote]:
    """One transactional id without a transaction, one that has committed, one with a transaction open."""
    data_dir = tmp_path_factory.mktemp("data")
    with (
        Broker({"orders": 1, "payments": 1}, config=CONFIG, data_dir=str(data_dir)) as broker,
        RawClient(broker.port) as client,
    ):
        client.call(FindCoordinatorRequest(key="idle", key_type=1), 3)
        producers = {name: init(client, name) for name in ("idle", "committed", "open")}
        add(client, "committed", producers["committed"], "orders")
        end(client, "committed", producers["committed"])
        add(client, "open", producers["open"], "orders", "payments")
        yield Wrote(data_dir, broker.port, producers)


def run(tool: str, *arguments: str) -> str:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_libs()}/*", f"org.apache.kafka.tools.{tool}"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_log_is_decoded(wrote: Wrote) -> None:
    (segment,) = (wrote.data_dir / "__transaction_state-0").glob("*.log")
    printed = run("DumpLogSegments", "--transaction-log-decoder", "--deep-iteration", "--files", str(segment))
    assert "could not be decoded" not in printed
    records = re.findall(r"key: (\{.*\}) payload: (\{.*\})", printed)
    values: dict[str, list[dict[str, Any]]] = {}
    for key, value in records:
        decoded = json.loads(value)
        assert decoded["version"] == "1", "the version of the value"
        values.setdefault(json.loads(key)["data"]["transactionalId"], []).append(decoded["data"])
    assert {name: [value["transactionStatus"] for value in values[name]] for name in values} == {
        "idle": [0],
        "committed": [0, 1, 2, 4],
        "open": [0, 1],
    }
    assert [value["producerEpoch"] for value in values["committed"]] == [0, 0, 1, 1]
    assert {topic["topic"] for topic in values["open"][-1]["transactionPartitions"]} == {"orders", "payments"}
    assert values["idle"][0]["transactionPartitions"] is None


def table(printed: str) -> list[dict[str, str]]:
    lines = [line.split("\t") for line in printed.splitlines() if line.strip()]
    names = [name.strip() for name in lines[0]]
    return [dict(zip(names, (cell.strip() for cell in line), strict=False)) for line in lines[1:]]


def test_the_coordinator_is_asked(wrote: Wrote) -> None:
    server = ["--bootstrap-server", f"127.0.0.1:{wrote.port}"]
    listed = table(run("TransactionsCommand", *server, "list"))
    assert {row["TransactionalId"]: row["TransactionState"] for row in listed} == {
        "idle": "Empty",
        "committed": "CompleteCommit",
        "open": "Ongoing",
    }
    (described,) = table(run("TransactionsCommand", *server, "describe", "--transactional-id", "open"))
    assert (described["TransactionState"], described["ProducerId"]) == (
        "Ongoing",
        str(wrote.producers["open"].producer_id),
    )
    assert (described["TransactionTimeoutMs"], set(described["TopicPartitions"].split(","))) == (
        "60000",
        {"orders-0", "payments-0"},
    )
