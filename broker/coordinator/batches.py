"""The records of a decision as the bytes of batches."""

from collections.abc import Iterator, Sequence

from barnabas.broker.coordinator.decision import Record, TransactionalProducer
from barnabas.broker.coordinator.definition import Serde
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import HEADER_BYTES
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.records import NewRecord

_RECORD_OVERHEAD = 32
"""An upper bound of what the lengths and deltas of a record take beside its key and value."""


def encode_batches(
    records: Sequence[Record],
    serde: Serde,
    *,
    now_ms: int,
    max_batch_bytes: int,
    compression: CompressionType,
    producer: TransactionalProducer | None,
) -> bytearray:
    """Returns as many batches as the limit demands. A record that is larger than the limit gets a batch of its own."""
    data = bytearray()
    for batch in _split(records, serde, now_ms, max_batch_bytes - HEADER_BYTES):
        if producer is None:
            data += build_batch(batch, compression=compression)
        else:
            data += build_batch(
                batch,
                compression=compression,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
    return data


def _split(records: Sequence[Record], serde: Serde, now_ms: int, limit: int) -> Iterator[list[NewRecord]]:
    batch: list[NewRecord] = []
    size = 0
    for key, value in records:
        record = NewRecord(serde.encode_key(key), None if value is None else serde.encode_value(value), (), now_ms)
        record_size = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
        if batch and size + record_size > limit:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += record_size
    yield batch
