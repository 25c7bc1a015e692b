"""Transactions that somebody else wrote: a directory of Kafka's may hold aborted ones, and one that was never ended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.batch_builder import build_end_transaction_marker
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.records import ControlType
from barnabas.storage.metadata_files import CLEAN_SHUTDOWN_FILE
from barnabas.storage.segments.transaction_index import AbortedTransaction, encode_aborted
from barnabas.testing import Broker
from tests.broker.wire import RawClient, Sent, good, now_ms, values_of

ABORTED, COMMITTED, OPEN = 7, 8, 9
READ_COMMITTED = 1


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    data_dir = tmp_path_factory.mktemp("data")
    with Broker({"orders": 1}, data_dir=str(data_dir)):
        pass
    log = data_dir / "orders-0" / f"{0:020}.log"
    log.write_bytes(
        data(ABORTED, 0)  # offsets 0 to 2
        + data(COMMITTED, 3)
        + marker(ControlType.ABORT, ABORTED, 6)
        + marker(ControlType.COMMIT, COMMITTED, 7)
        + data(OPEN, 8)
        + good(base_offset=11)  # of somebody who needs no transactions
    )
    row = AbortedTransaction(first_offset=0, producer_id=ABORTED, last_offset=6, last_stable_offset=3)
    log.with_suffix(".txnindex").write_bytes(encode_aborted([row]))
    Path(data_dir, CLEAN_SHUTDOWN_FILE).unlink()
    with Broker(data_dir=str(data_dir)) as broker, RawClient(broker.port) as client:
        yield client


def data(producer_id: int, base_offset: int) -> bytearray:
    return good(sent=Sent(producer_id, 0, 0), base_offset=base_offset, transactional=True)


def marker(control_type: ControlType, producer_id: int, base_offset: int) -> bytearray:
    ended = {"producer_id": producer_id, "producer_epoch": 0, "coordinator_epoch": 0}
    return build_end_transaction_marker(control_type, timestamp=now_ms(), base_offset=base_offset, **ended)


def aborted(answer: Any) -> list[tuple[int, int]]:
    return [(transaction.producer_id, transaction.first_offset) for transaction in answer.aborted_transactions]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, [(ABORTED, 0)]),
        (4, [(ABORTED, 0)]),  # its marker is still to come
        (7, []),
    ],
)
def test_those_who_read_committed_are_told_what_was_aborted(
    client: RawClient, offset: int, expected: list[tuple[int, int]]
) -> None:
    assert aborted(client.fetch("orders", offset, isolation_level=READ_COMMITTED)) == expected


def test_those_who_read_everything_are_not(client: RawClient) -> None:
    answer = client.fetch("orders")
    assert answer.aborted_transactions is None
    assert len(values_of(answer)) == 14


def test_nothing_behind_an_open_transaction_is_committed(client: RawClient) -> None:
    answer = client.fetch("orders", isolation_level=READ_COMMITTED)
    assert (answer.last_stable_offset, answer.high_watermark, len(values_of(answer))) == (8, 14, 8)
    topics = [ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
    for isolation_level, end in ((0, 14), (READ_COMMITTED, 8)):
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        assert client.call(request).topics[0].partitions[0].offset == end
