"""What of an answer to a fetch belongs to aborted transactions, for those who read committed records."""

from collections.abc import Iterable

from barnabas.protocol.batch_header import BatchHeader


class AbortedTransactions:
    """The aborted transactions of one answer. Batches are shown to it in order: a transaction ends with its marker, and
    the next one of the same producer may have been committed."""

    __slots__ = ("_begun", "_to_come")

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Takes the first offset and the producer id of each, in any order."""
        self._to_come = sorted(transactions, reverse=True)
        self._begun: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Returns whether the records of the next batch are not to be shown: they were aborted, or are markers."""
        while self._to_come and self._to_come[-1][0] <= header.last_offset:
            self._begun.add(self._to_come.pop()[1])
        if header.is_control:
            self._begun.discard(header.producer_id)  # only an aborted transaction is listed, so its marker says abort
            return True
        return header.is_transactional and header.producer_id in self._begun
