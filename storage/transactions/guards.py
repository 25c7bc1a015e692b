"""Guards against hanging transactions (KIP-890): a transaction begins on a partition only if its coordinator knows.

Rules, Kafka's:
- Before the first batch of a transaction is appended the coordinator is asked whether the partition belongs to it. The
  question gets a guard, one for each producer id at a time, and the append must bring the very same guard. A flag would
  not do: a batch that was verified, aborted, and found another transaction of the same producer under way would pass.
- A guard ends with any transactional batch of its producer, and with its marker: what was asked before is of no use
  then. But by the rules of transaction.version 2 the marker of one transaction has the epoch of the next, which may
  have asked already: that guard stays (KAFKA-18575).
- Unlike in Kafka it does not outlive a marker of the old rules, which has the epoch of the transaction that it ends: a
  producer of the new rules may have its transaction ended by an EndTxn of the old ones.
- It remembers the lowest sequence that was asked for. If that batch fails, a later one must not be the first.
"""


class VerificationGuard:
    """Only itself is equal to it."""

    __slots__ = ("created_ms", "is_v2", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, base_sequence: int, *, is_v2: bool, created_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = base_sequence
        self.is_v2 = is_v2
        """Whether the producer goes by the rules of transaction.version 2."""
        self.created_ms = created_ms

    def asked_again(self, producer_epoch: int, base_sequence: int, *, is_v2: bool) -> None:
        """Notes that another batch waits for the same answer. A newer epoch brings its own rules."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence, self.is_v2 = producer_epoch, base_sequence, is_v2
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, base_sequence)
