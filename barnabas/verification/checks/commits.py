"""The committed offset that a group is told is the last one that was stored.

A commit that was never answered may take effect at any time, so its offset stays possible. One that was stored rules
out those that were answered before it began.
"""

from barnabas.verification.events import BadHistory, Commit, Committed, Told
from barnabas.verification.findings import Finding, Findings, Kind


class _Request:
    """A commit on its way, or one that may be the last."""

    def __init__(self, offset: int, began: int) -> None:
        self.offset = offset
        self.began = began
        self.stored_at: int | None = None


class _Position:
    """What the committed offset of one group in one partition may be."""

    def __init__(self) -> None:
        self.possible: list[_Request] = []
        self.has_stored = False
        self.highest = -1

    def stored(self, request: _Request) -> None:
        self.has_stored = True
        self.possible = [each for each in self.possible if each.stored_at is None or each.stored_at >= request.began]

    def offsets(self) -> set[int | None]:
        return {request.offset for request in self.possible} | (set() if self.has_stored else {None})


class Commits:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._positions: dict[tuple[str, int], _Position] = {}
        self._under_way: dict[tuple[str, int], _Request] = {}
        self._allowed: dict[tuple[str, int], set[int | None]] = {}
        self._clock = 0
        self.stored = 0

    def commit(self, group: str, event: Commit) -> None:
        self._clock += 1
        request = _Request(event.offset, self._clock)
        self._under_way[event.consumer, event.partition] = request
        position = self._position(group, event.partition)
        position.possible.append(request)
        position.highest = max(position.highest, event.offset)

    def committed(self, group: str, event: Committed) -> None:
        self._clock += 1
        if (request := self._under_way.pop((event.consumer, event.partition), None)) is None:
            raise BadHistory(
                f"{event.consumer} was answered about a commit of partition {event.partition}, without one"
            )
        position = self._position(group, event.partition)
        if event.stored:
            self.stored += 1
            request.stored_at = self._clock
            position.stored(request)
        elif event.stored is False:
            position.possible.remove(request)

    def asked(self, group: str, consumer: str, partition: int) -> None:
        self._allowed[consumer, partition] = self._position(group, partition).offsets()

    def told(self, group: str, event: Told) -> None:
        position = self._position(group, event.partition)
        allowed = self._allowed.pop((event.consumer, event.partition), set()) | position.offsets()
        if event.offset not in allowed:
            self._findings.add(_wrong(group, event, allowed, position.highest))

    def _position(self, group: str, partition: int) -> _Position:
        return self._positions.setdefault((group, partition), _Position())


def _wrong(group: str, event: Told, allowed: set[int | None], highest: int) -> Finding:
    told = "no committed offset" if event.offset is None else f"offset {event.offset}"
    known = sorted(offset for offset in allowed if offset is not None)
    should = f"it had committed {' or '.join(map(str, known[-3:]))}" if known else "it had committed nothing"
    went_back = event.offset is None or event.offset < max(known, default=-1)
    kind = Kind.COMMIT_WENT_BACK if went_back else Kind.COMMIT_UNKNOWN
    beyond = f", and never more than {highest}" if not went_back and highest >= 0 else ""
    said = f"{event.consumer} of group {group} was told {told}; {should}{beyond}"
    return Finding(kind, said, event.partition, event.offset, time_ms=event.time_ms)
