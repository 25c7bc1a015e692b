"""Hears of everything that becomes committed in partitions of transactions, and of nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.records import iter_records
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
    advance = Log.advance_high_watermark

    def advanced(log: Log, *args: Any) -> bool:
        has_moved = advance(log, *args)
        if has_moved and log.topic_partition in oracle.models and isinstance(log.listener, LeaderPartition):
            _tell(log, oracle)
        return has_moved

    begin = LeaderPartition.__init__

    def begun(partition: LeaderPartition, *args: Any, **options: Any) -> None:
        """What a log has as committed when it is opened, nobody has been told by a move."""
        begin(partition, *args, **options)
        if partition.topic_partition in oracle.models:
            _tell(partition.log, oracle)

    with patch.object(Log, "advance_high_watermark", advanced), patch.object(LeaderPartition, "__init__", begun):
        yield


def _tell(log: Log, oracle: TransactionOracle) -> None:
    """Tells what is committed now and was not before."""
    partition = log.topic_partition
    end, offset = log.high_watermark, oracle.models[partition].end
    while offset < end and not oracle.is_void:
        found = log.read(offset, _READ_BYTES, max_offset=end)
        if found is None:
            return
        data = memoryview(found.file.pread(found.size, found.position))
        for position, header in iter_batches(data):
            offset = header.next_offset
            if header.base_offset < oracle.models[partition].end:
                continue
            records = list(iter_records(data[position : position + header.size_bytes], max_decompressed_bytes=1 << 20))
            if header.is_control:
                oracle.marker_committed(partition, header, bytes(records[0].key or b"") == _COMMIT)
            else:
                oracle.batch_committed(partition, header, [(each.offset, bytes(each.value or b"")) for each in records])
