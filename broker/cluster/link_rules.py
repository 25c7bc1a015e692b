"""What the rules about links remember: closings that come together, false alarms, and how often each rule applied.

Pure: time is handed in.
"""

from dataclasses import dataclass

TOGETHER_MS = 100
SPARED_MS = 30_000
SPARED_MAX_MS = 600_000


@dataclass(slots=True)
class LinkCounts:
    """How often each rule of `liveness.py` has decided something since this node started."""

    closed: int = 0
    """Rule 1: links that their brokers ended."""
    refused: int = 0
    """Rule 2: brokers that were fenced because nobody listened."""
    unreachable: int = 0
    """Rule 2: brokers that were fenced because their machine did not answer either."""
    unclear: int = 0
    """Rule 2: probes that somebody accepted."""
    came_back: int = 0
    """Rules 2 and 3: brokers that reported again while they were being dialled."""
    ignored: int = 0
    """Rule 4: links that ended while this controller did not lead."""
    crowded: int = 0
    """Rule 4: brokers that were out of reach, and not fenced because many were."""
    false_alarms: int = 0
    """Rule 5: brokers that were fenced and had not died."""
    spared: int = 0
    """Rule 5: brokers that were not fenced because of an earlier false alarm."""
    successors: int = 0
    """Rule 6: processes that took the place of a dead one."""


class Crowd:
    """Links that closed at about the same time, and how many there had been."""

    __slots__ = ("_began_ms", "_closed", "_links")

    def __init__(self, links: int, *, now_ms: int) -> None:
        self._began_ms = now_ms
        self._links = links
        self._closed = 0

    def takes(self, *, now_ms: int) -> bool:
        return now_ms - self._began_ms <= TOGETHER_MS

    def join(self) -> None:
        self._closed += 1

    @property
    def is_suspicious(self) -> bool:
        """Returns whether so many closed that the fault may be at this end."""
        return self._closed >= 2 and 2 * self._closed >= self._links


class _Record:
    __slots__ = ("broker_epoch", "is_fenced", "spared_ms", "spared_until_ms")

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self.is_fenced = False
        self.spared_ms = 0
        self.spared_until_ms = 0


class FalseAlarms:
    """Which brokers were fenced by the end of a link, and came back although they had never gone."""

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}

    def fenced(self, broker_id: int, broker_epoch: int) -> None:
        record = self._records.get(broker_id)
        if record is None or record.broker_epoch != broker_epoch:
            record = self._records[broker_id] = _Record(broker_epoch)
        record.is_fenced = True

    def heard(self, broker_id: int, broker_epoch: int, *, now_ms: int) -> int:
        """Returns for how long this incarnation is not fenced so fast again, if that was a false alarm; otherwise 0."""
        record = self._records.get(broker_id)
        if record is None or record.broker_epoch != broker_epoch or not record.is_fenced:
            return 0
        record.is_fenced = False
        record.spared_ms = min(2 * record.spared_ms or SPARED_MS, SPARED_MAX_MS)
        record.spared_until_ms = now_ms + record.spared_ms
        return record.spared_ms

    def is_spared(self, broker_id: int, broker_epoch: int, *, now_ms: int) -> bool:
        record = self._records.get(broker_id)
        return record is not None and record.broker_epoch == broker_epoch and now_ms < record.spared_until_ms
