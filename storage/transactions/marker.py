"""The marker that ends a transaction on a partition, before it is a batch."""

from functools import lru_cache

from barnabas.protocol.batch_builder import build_end_transaction_marker
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.records import ControlType

_EPOCH_FOR_EACH_TRANSACTION = 2
_KEPT_MAX = 16


class TransactionMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The leader epoch of the partition of `__transaction_state` whose coordinator has decided."""
    is_committed: bool
    transaction_version: int
    """The level of the feature transaction.version under which the transaction was ended."""

    @property
    def has_own_epoch(self) -> bool:
        """Returns whether the producer's epoch was raised to end this transaction: then no other one has it."""
        return self.transaction_version >= _EPOCH_FOR_EACH_TRANSACTION

    def to_batch(self, now_ms: int) -> memoryview:
        """Returns a batch of the caller's own, which an append may change."""
        return memoryview(bytearray(_encoded(self, now_ms)))


@lru_cache(_KEPT_MAX)
def _encoded(marker: TransactionMarker, now_ms: int) -> bytes:
    """Encodes a marker once for all partitions of its transaction: only offset and leader epoch differ there."""
    return bytes(
        build_end_transaction_marker(
            ControlType.COMMIT if marker.is_committed else ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=now_ms,
        )
    )
