"""What a consumer reads of a partition goes on, one offset after the other, from where it was assigned."""

from array import array

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.verification.events import Assigned, Polled
from barnabas.verification.findings import Finding, Findings, Kind
from barnabas.verification.ledger import Ledger


class Gap(NamedTuple):
    """Offsets that a consumer did not read between two that it read, or before its first one."""

    consumer: str
    partition: int
    first: int
    end: int
    time_ms: int
    is_first_poll: bool


class PollOrder:
    def __init__(self, ledger: Ledger, findings: Findings) -> None:
        self._ledger = ledger
        self._findings = findings
        self._next: dict[tuple[str, int], int] = {}
        self._has_polled: set[tuple[str, int]] = set()
        self._gaps: list[Gap] = []

    def assigned(self, event: Assigned) -> None:
        key = event.consumer, event.partition
        self._has_polled.discard(key)
        if event.position is None:
            self._next.pop(key, None)
        else:
            self._next[key] = event.position

    def polled(self, event: Polled) -> None:
        if not event.records:
            return
        key = event.consumer, event.partition
        offsets = array("q", [record[0] for record in event.records])
        expected = self._next.get(key, offsets[0])
        if offsets != array("q", range(expected, expected + len(offsets))):
            self._polled_otherwise(event, offsets, expected)
        self._next[key] = offsets[-1] + 1
        self._has_polled.add(key)

    def _polled_otherwise(self, event: Polled, offsets: "array[int]", expected: int) -> None:
        is_first_poll = (event.consumer, event.partition) not in self._has_polled
        for offset in offsets:
            if offset < expected:
                said = f"{event.consumer} read it when offset {expected} was next"
                self._findings.add(Finding(Kind.POLL_ORDER, said, event.partition, offset, time_ms=event.time_ms))
            elif offset > expected:
                gap = Gap(event.consumer, event.partition, expected, offset, event.time_ms, is_first_poll)
                self._gaps.append(gap)
            expected, is_first_poll = offset + 1, False

    def finish(self, groups: dict[str, str]) -> None:
        """Judges the gaps, now that all readers have told what is there. Those of retention are excused."""
        for gap in self._gaps:
            partition = self._ledger.partition(gap.partition)
            found = [
                offset
                for offset, identity in partition.pages.between(max(gap.first, partition.start or 0), gap.end)
                if self._ledger.was_read(partition, offset, identity)
            ]
            if found:
                self._findings.add(_skipped(gap, found, groups.get(gap.consumer)))


def _skipped(gap: Gap, found: list[int], group: str | None) -> Finding:
    what = (
        f"the record at offset {found[0]}" if len(found) == 1 else f"{len(found):,} records from offset {found[0]} on"
    )
    if group is not None and gap.is_first_poll:
        said = f"{gap.consumer} of group {group} began after the committed offset {gap.first} and passed over {what}"
        return Finding(Kind.GROUP_SKIP, said, gap.partition, found[0], time_ms=gap.time_ms)
    said = f"{gap.consumer} went from offset {gap.first - 1} to {gap.end} and passed over {what}"
    return Finding(Kind.POLL_SKIP, said, gap.partition, found[0], time_ms=gap.time_ms)
