"""Logs that another broker has written: with transactions of any kind in them, also ones that hang."""

from pathlib import Path

from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.storage.metadata_files import CLEAN_SHUTDOWN_FILE
from barnabas.testing import Broker

WRITTEN_MS = 1_700_000_000_000
"""Longer ago than any transaction takes."""


class Written:
    """The bytes of a log, batch by batch."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offset = 0
        self._sequences: dict[int, int] = {}

    def records(self, producer_id: int | None, *values: bytes) -> "Written":
        records = [NewRecord(None, value, (), WRITTEN_MS) for value in values]
        if producer_id is None:
            self.data += build_batch(records, base_offset=self.offset)
        else:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + len(values)
            self.data += build_batch(
                records,
                base_offset=self.offset,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
        self.offset += len(values)
        return self

    def marker(self, control_type: ControlType, producer_id: int) -> "Written":
        self.data += build_end_transaction_marker(
            control_type,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=WRITTEN_MS,
            base_offset=self.offset,
        )
        self.offset += 1
        return self


def broker_on(written: Written, data_dir: Path) -> Broker:
    """Returns a broker that finds this in orders-0."""
    with Broker({"orders": 1}, data_dir=str(data_dir)):
        pass
    (data_dir / "orders-0" / f"{0:020}.log").write_bytes(written.data)
    Path(data_dir, CLEAN_SHUTDOWN_FILE).unlink()
    return Broker(data_dir=str(data_dir))
