"""How far each replica of a partition has come, as its leader knows, and what is committed because of that. Pure.

The high watermark is the least log end offset among the in-sync replicas: what is below it is on all of them, so each
of them may lead without losing it. A replica that is out of sync holds nobody up.
"""

from collections.abc import Iterable


class InSyncReplicas:
    """The progress of every replica that has reported, and which of them count."""

    __slots__ = ("_log_end_offsets", "_members", "_sole_member")

    def __init__(self, members: Iterable[int]) -> None:
        self._members = frozenset(members)
        assert self._members, "a leader is in sync with itself"
        self._sole_member = next(iter(self._members)) if len(self._members) == 1 else None
        self._log_end_offsets: dict[int, int] = {}

    @property
    def members(self) -> frozenset[int]:
        return self._members

    def log_end_offset(self, replica_id: int) -> int:
        """Returns how far the replica has come; -1 before its first report."""
        return self._log_end_offsets.get(replica_id, -1)

    def advance(self, replica_id: int, log_end_offset: int) -> int:
        """Notes a replica's progress. Returns the high watermark that follows, -1 if a member has not reported."""
        offsets = self._log_end_offsets
        offsets[replica_id] = log_end_offset
        if replica_id == self._sole_member:
            return log_end_offset
        return min(offsets.get(member, -1) for member in self._members)
