"""How compaction treats transactions.

Rules, Kafka's:
- Records of an aborted transaction go, and its keys count for nothing.
- A marker may go once no batch of its transaction is left; it stays for delete.retention.ms from the cleaning that
  found that out. Until then an aborted transaction keeps its row.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import CorruptMessage
from barnabas.protocol.records import ControlType, control_type_of, iter_records
from barnabas.storage.segments.transaction_index import AbortedTransaction

_MARKER_BYTES_MAX = 1 << 20


class CleanedTransactions:
    """Follows the transactions while batches are passed in the order of their offsets."""

    __slots__ = ("_coming", "_committed", "_ongoing", "_were_seen", "retained")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = list(aborted)
        heapify(self._coming)
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._were_seen: set[int] = set()
        """Producers whose ongoing aborted transaction has a batch left."""
        self._committed: set[int] = set()
        """Producers with a batch that belongs to no aborted transaction."""
        self.retained: list[AbortedTransaction] = []
        """What the index of the cleaned segment must hold."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Returns whether a data batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing:
            self._were_seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_obsolete(self, header: BatchHeader, batch: memoryview) -> bool:
        """Returns whether nothing is left of the transaction that a control batch ended."""
        self._begin_up_to(header.last_offset)
        for record in iter_records(batch, max_decompressed_bytes=_MARKER_BYTES_MAX):
            control_type = control_type_of(record)
            if control_type == ControlType.ABORT:
                return self._end_aborted(header)
            if control_type == ControlType.COMMIT:
                had_batches = header.producer_id in self._committed
                self._committed.discard(header.producer_id)
                return not had_batches
            return False
        return True  # emptied before

    def _end_aborted(self, header: BatchHeader) -> bool:
        if header.producer_id in self._committed:
            raise CorruptMessage(
                f"the transaction that producer {header.producer_id} aborted at offset {header.base_offset} is in no "
                "transaction index: its records cannot be told from committed ones"
            )
        aborted = self._ongoing.pop(header.producer_id, None)
        if aborted is None or header.producer_id not in self._were_seen:
            return True
        self._were_seen.discard(header.producer_id)
        self.retained.append(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            aborted = heappop(self._coming)
            self._ongoing.setdefault(aborted.producer_id, aborted)
