"""Hears of everything that becomes committed in partitions of transactions and of their coordinators."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.transactions.records import TransactionSerde
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch
from barnabas.protocol.batch_header import BatchHeader, iter_batches
from barnabas.protocol.records import Record, iter_records
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from barnabas.storage.log import Log
from tests.simulation.cluster.transactions.oracle import TransactionOracle
from tests.simulation.cluster.transactions.workload import Transactions

_READ_BYTES = 1 << 20
_COMMIT = b"\x00\x00\x00\x01"
"""The key of a control record that commits: its version, and its type."""


@contextmanager
def listening_to_transactions(transactions: Transactions | None) -> Iterator[None]:
    if transactions is None:
        yield
        return
    oracle = transactions.oracle
    coordinators = Coordinators(oracle)
    advance = Log.advance_high_watermark

    def tell(log: Log) -> None:
        if log.topic_partition in oracle.models:
            _tell(log, oracle)
        elif log.topic_partition.topic == TRANSACTION_STATE_TOPIC:
            coordinators.tell(log)

    def advanced(log: Log, *args: Any) -> bool:
        has_moved = advance(log, *args)
        if has_moved and isinstance(log.listener, LeaderPartition):
            tell(log)
        return has_moved

    begin = LeaderPartition.__init__

    def begun(partition: LeaderPartition, *args: Any, **options: Any) -> None:
        """What a log has as committed when it is opened, nobody has been told by a move."""
        begin(partition, *args, **options)
        tell(partition.log)

    with patch.object(Log, "advance_high_watermark", advanced), patch.object(LeaderPartition, "__init__", begun):
        yield


class Committed(NamedTuple):
    header: BatchHeader
    records: list[Record]


def _committed(log: Log, offset: int) -> Iterator[Committed]:
    """Yields the batches from an offset up to the high watermark."""
    end = log.high_watermark
    while offset < end:
        found = log.read(max(offset, log.log_start_offset), _READ_BYTES, max_offset=end)
        if found is None:
            return
        data = memoryview(found.file.pread(found.size, found.position))
        for position, header in iter_batches(data):
            if header.base_offset >= offset:
                batch = data[position : position + header.size_bytes]
                yield Committed(header, list(iter_records(batch, max_decompressed_bytes=1 << 20)))
        offset = header.next_offset


def _tell(log: Log, oracle: TransactionOracle) -> None:
    """Tells what is committed now and was not before."""
    partition = log.topic_partition
    for header, records in _committed(log, oracle.models[partition].end):
        if oracle.is_void:
            return
        if header.is_control:
            oracle.marker_committed(partition, header, bytes(records[0].key or b"") == _COMMIT)
        else:
            oracle.batch_committed(partition, header, [(each.offset, bytes(each.value or b"")) for each in records])


class Coordinators:
    """Tells what `__transaction_state` says of the producers that go on after their transactions."""

    def __init__(self, oracle: TransactionOracle) -> None:
        self._oracle = oracle
        self._serde = TransactionSerde(lambda: 0)
        self._ends: dict[TopicPartition, int] = {}
        self._ended: dict[str, ProducerIdAndEpoch] = {}
        """By transactional id: what its transaction has ended with, until that is complete."""

    def tell(self, log: Log) -> None:
        for header, records in _committed(log, self._ends.get(log.topic_partition, 0)):
            self._ends[log.topic_partition] = header.next_offset
            for record in () if header.is_control else records:
                self._recorded(record)

    def _recorded(self, record: Record) -> None:
        decoded = self._serde.decode_record(bytes(record.key or b""), record.value)
        transactional_id, transaction = decoded or ("", None)
        if transaction is None:
            return
        ended = self._ended.pop(transactional_id, None)
        if transaction.is_ending:
            self._ended[transactional_id] = transaction.producer
        elif ended is not None:
            self._oracle.completed(transactional_id, *ended, transaction.producer)
