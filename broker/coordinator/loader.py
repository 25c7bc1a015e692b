"""Loads a state machine: replays the log of its partition from the start to the end, a few records at a time."""

from collections.abc import Iterator

from barnabas.broker.coordinator.definition import CoordinatorPartition, Serde, StateMachine
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.records import ControlType, control_type_of, iter_records
from barnabas.storage.validation import MAX_DECOMPRESSED_BYTES

_RECORDS_PER_PAUSE = 64


def load(partition: CoordinatorPartition, machine: StateMachine, serde: Serde, buffer_bytes: int) -> Iterator[None]:
    """Replays the log, and yields after every few records, so that the caller can look at the clock. Raises KafkaError
    or ProtocolError if the log cannot be read."""
    offset = replayed = 0
    while offset < partition.log_end_offset:
        offset = max(offset, partition.log_start_offset)
        data = memoryview(partition.read(offset, buffer_bytes))
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            for record in iter_records(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES):
                if header.is_control:
                    is_committed = control_type_of(record) == ControlType.COMMIT
                    machine.end_transaction(header.producer_id, is_committed=is_committed)
                elif record.key is not None:
                    decoded = serde.decode_record(record.key, record.value)
                    if decoded is not None:
                        machine.replay(*decoded, record.offset, header.producer_id)
                replayed += 1
                if replayed % _RECORDS_PER_PAUSE == 0:
                    yield
            offset = header.next_offset
