"""Which part of the metadata log is committed: what a majority of the voters has on its disks, and nothing by luck.

Rules, Raft's:
- A voter counts with what it has synced, the leader itself included: a majority of page caches is no majority. Its last
  word counts: one that comes back with an older disk has lost what it said before.
- A leader commits nothing before a record of its own epoch is committed; that record commits everything before it.
- The high watermark never goes back within an epoch.
- The voters in force decide, from the moment their record is appended (KIP-853). A leader that is not one of them does
  not count.
Pure: the end offsets are reported from outside. A single voter is a majority.
"""

from collections.abc import Hashable, Iterable

UNKNOWN = -1


class CommitRule:
    """The high watermark of one leader's epoch."""

    __slots__ = ("_durable", "_epoch_start_offset", "_voters", "high_watermark")

    def __init__(self, voters: Iterable[Hashable], epoch_start_offset: int) -> None:
        """Takes as `epoch_start_offset` the offset of the leader's first record."""
        self._voters = tuple(voters)
        self._durable: dict[Hashable, int] = {}
        self._epoch_start_offset = epoch_start_offset
        self.high_watermark = UNKNOWN

    def durable(self, replica: Hashable, end_offset: int) -> int:
        """Notes that a replica has synced everything before `end_offset`; returns the high watermark. Observers may
        report as well: they count if they become voters."""
        self._durable[replica] = end_offset
        return self._decide()

    def durable_end(self, replica: Hashable) -> int:
        return self._durable.get(replica, UNKNOWN)

    def change_voters(self, voters: Iterable[Hashable]) -> int:
        """Lets other voters decide from now on; returns the high watermark."""
        self._voters = tuple(voters)
        return self._decide()

    def _decide(self) -> int:
        by_majority = sorted(map(self.durable_end, self._voters), reverse=True)[len(self._voters) // 2]
        if by_majority > self._epoch_start_offset:
            self.high_watermark = max(self.high_watermark, by_majority)
        return self.high_watermark
