"""Kafka's own tools on transactions: listed, described, found hanging and aborted, and the files that keep them."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.conftest import Drivers, Restartable
from compat_tests.differential.batches import TRANSACTIONAL, Batch
from compat_tests.differential.sides import Side
from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.groups import eventually
from compat_tests.harness.transactions import READ_COMMITTED, Transactional, stable_end
from compat_tests.transactions.conftest import FEATURES_TOOL

TRANSACTIONS_TOOL = "org.apache.kafka.tools.TransactionsCommand"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = "0", "1", "2", "4"
NO_VERIFICATION = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    """Starts a broker that lets a transaction hang: one that asks nobody whether a partition is part of it."""
    restartable = Restartable(tmp_path_factory.mktemp("tools"), NO_VERIFICATION)
    with restartable.running:
        yield restartable


@pytest.fixture(scope="module")
def java(restartable: Restartable, drivers: Drivers) -> Driver:
    return drivers["java-4.3"].at(restartable.broker.bootstrap)


Rows = list[list[str]]
Ask = Callable[..., str]


@pytest.fixture(scope="module")
def ask(java: Driver) -> Ask:
    def run(tool: str, *arguments: str) -> str:
        where = [] if tool == DUMP_TOOL else ["--bootstrap-server", java.bootstrap]
        done = java.ask("tool", tool=tool, arguments=[*where, *arguments])
        assert done["code"] == 0, done
        printed: str = done["printed"]
        return printed

    return run


def rows(printed: str) -> Rows:
    """Returns the table below its heading, as words."""
    return [line.split() for line in printed.splitlines()[1:] if line]


class Ended(NamedTuple):
    committed: Transactional
    aborted: Transactional
    is_open: Transactional


@pytest.fixture(scope="module")
def ended(java: Driver) -> Iterator[Ended]:
    """Leaves one transaction committed, one aborted, and one open, each of its own producer."""
    java.ask("create_topic", topic="listed", partitions=1, configs={})
    found = Ended(*(Transactional(java, name, name) for name in Ended._fields))
    found.committed.committed("listed", Record(value=b"committed"))
    eventually(lambda: stable_end(java, "listed") == 2, "the marker is written")
    found.aborted.aborted("listed", Record(value=b"aborted"))
    eventually(lambda: stable_end(java, "listed") == 4, "the marker is written")
    found.is_open.begin()
    found.is_open.send("listed", [Record(value=b"open")])
    yield found
    for producer in found:
        producer.drop()


def test_transactions_are_listed_with_their_states(ended: Ended, ask: Ask) -> None:
    def states() -> dict[str, str]:
        return {row[0]: row[3] for row in rows(ask(TRANSACTIONS_TOOL, "list"))}

    wanted = {"committed": "CompleteCommit", "aborted": "CompleteAbort", "is_open": "Ongoing"}
    eventually(lambda: states().items() >= wanted.items(), "all are listed", states)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--duration-filter", "1"], {"is_open", "committed", "aborted"}),
        (["--duration-filter", "3600000"], set()),
        (["--transactional-id-pattern", "is_.*"], {"is_open"}),
        (["--transactional-id-pattern", "open"], set()),  # all of the name has to match
    ],
)
def test_transactions_are_listed_by_filters(ended: Ended, ask: Ask, options: list[str], found: set[str]) -> None:
    assert {row[0] for row in rows(ask(TRANSACTIONS_TOOL, "list", *options))} & set(Ended._fields) == found


def test_a_transaction_is_described(ended: Ended, ask: Ask) -> None:
    (described,) = rows(ask(TRANSACTIONS_TOOL, "describe", "--transactional-id", "is_open"))
    assert described[1] == "is_open"
    assert described[4] == "Ongoing"
    assert described[5] == "60000"
    assert described[-1] == "listed-0"


def test_the_producers_of_a_partition_are_described(ended: Ended, ask: Ask) -> None:
    where = ("--topic", "listed", "--partition", "0")
    producers = rows(ask(TRANSACTIONS_TOOL, "describe-producers", *where))
    began = sorted(row[-1] for row in producers)
    assert began == ["4", "None", "None"]  # after two records and two markers


def test_nothing_hangs_that_its_coordinator_knows(ended: Ended, ask: Ask) -> None:
    printed = ask(TRANSACTIONS_TOOL, "find-hanging", "--topic", "listed", "--max-transaction-timeout", "0")
    assert rows(printed) == []


def test_a_hanging_transaction_is_found_and_aborted(
    restartable: Restartable, java: Driver, ask: Ask, now_ms: int
) -> None:
    """One that a producer of old began an hour ago, without a word to the coordinator."""
    java.ask("create_topic", topic="hanging", partitions=1, configs={})
    side = Side("broker", restartable.broker.port)
    identity = side.call("InitProducerId", {"TransactionalId": None, "TransactionTimeoutMs": 60_000}, 4)
    producer_id, epoch = identity["ProducerId"], identity["ProducerEpoch"]
    batch = Batch(
        timestamp=now_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL
    )
    partition = {"Index": 0, "Records": batch.encoded(producer_id)}
    topic = {"Name": "hanging", "PartitionData": [partition]}
    produce = {"TransactionalId": "nobody", "Acks": -1, "TimeoutMs": 10_000, "TopicData": [topic]}
    answer = side.call("Produce", produce, 9)
    assert answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == 0
    side.close()
    java.produce("hanging", [Record(value=b"after")])
    assert stable_end(java, "hanging") == 0

    found = rows(ask(TRANSACTIONS_TOOL, "find-hanging", "--topic", "hanging"))
    assert [row[:3] for row in found] == [["hanging", "0", str(producer_id)]]
    ask(TRANSACTIONS_TOOL, "abort", "--topic", "hanging", "--partition", "0", "--start-offset", "0")
    assert rows(ask(TRANSACTIONS_TOOL, "find-hanging", "--topic", "hanging")) == []
    assert stable_end(java, "hanging") == 3
    (read,) = java.consume("hanging", 1, isolation=READ_COMMITTED)
    assert read.value == b"after"


def test_a_transaction_is_ended_by_its_id(java: Driver, ask: Ask) -> None:
    java.ask("create_topic", topic="forced", partitions=1, configs={})
    producer = Transactional(java, "forced", "forced")
    producer.begin()
    producer.send("forced", [Record(value=b"open")])
    ask(TRANSACTIONS_TOOL, "forceTerminateTransaction", "--transactionalId", "forced")
    eventually(lambda: stable_end(java, "forced") == 2, "the transaction is aborted")
    producer.drop()


def state_logs(data_dir: Path) -> list[Path]:
    return [log for log in data_dir.glob("__transaction_state-*/*.log") if log.stat().st_size]


def test_what_the_coordinator_wrote_is_decoded(restartable: Restartable, ended: Ended, ask: Ask) -> None:
    def decoded() -> list[list[str]]:
        return [states_in(data_dir) for data_dir in restartable.broker.data_dirs]

    def states_in(data_dir: Path) -> list[str]:
        logs = ",".join(map(str, state_logs(data_dir)))
        printed = ask(DUMP_TOOL, "--transaction-log-decoder", "--files", logs)
        assert "isvalid: false" not in printed
        return re.findall(r'"transactionalId":"committed".*?"transactionStatus":(\d)', printed)

    expected = [[EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]] * len(restartable.broker.data_dirs)
    eventually(lambda: decoded() == expected, "the transaction is decoded in every replica", decoded)


def test_markers_are_read_from_the_log(restartable: Restartable, ended: Ended, ask: Ask) -> None:
    printed = ask(DUMP_TOOL, "--print-data-log", "--files", str(restartable.broker.log_dir("listed") / f"{0:020}.log"))
    assert re.findall(r"endTxnMarker: (\w+)", printed) == ["COMMIT", "ABORT"]
    assert "isvalid: false" not in printed


def test_the_index_of_aborted_transactions_is_read(restartable: Restartable, ended: Ended, ask: Ask) -> None:
    restartable.restart(signal.SIGTERM)  # until then Barnabas has what belongs to the last segment in memory
    printed = ask(DUMP_TOOL, "--files", str(restartable.broker.log_dir("listed") / f"{0:020}.txnindex"))
    assert re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", printed) == [("2", "3", "4")]


def test_the_version_of_transactions_is_a_feature(ended: Ended, ask: Ask) -> None:
    printed = ask(FEATURES_TOOL, "describe")
    (line,) = (line for line in printed.splitlines() if "transaction.version" in line)
    assert re.search(r"SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2", line)
