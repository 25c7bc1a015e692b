"""The transactions of a log that hold back its last stable offset.

A transaction is *ongoing* until its marker is appended, and *unstable* until that marker is below the high watermark:
before that a change of leaders may take the marker back. Both are kept in the order in which they began, so that the
first of them is at hand however many there are.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable


class UnstableTransactions:
    __slots__ = ("_ongoing", "_unstable", "first_unstable_offset", "undecided_markers")

    def __init__(self, ongoing: Iterable[tuple[int, int]] = ()) -> None:
        """Takes the first offset and the producer id of each transaction that is under way."""
        self._ongoing: OrderedDict[int, int] = OrderedDict(sorted(ongoing))
        self._unstable: OrderedDict[int, None] = OrderedDict.fromkeys(self._ongoing)
        self.undecided_markers: deque[tuple[int, int]] = deque()
        """The offsets of markers that may still be lost, and where their transactions began."""
        self.first_unstable_offset: int | None = next(iter(self._unstable), None)
        """Where the oldest transaction whose outcome is not committed began."""

    @property
    def first_ongoing_offset(self) -> int | None:
        """Returns where the oldest transaction without a marker began."""
        return next(iter(self._ongoing), None)

    @property
    def oldest(self) -> tuple[int, int] | None:
        """Returns the producer id of the oldest transaction without a marker, and where it began."""
        return next(((producer_id, first_offset) for first_offset, producer_id in self._ongoing.items()), None)

    def begin(self, first_offset: int, producer_id: int) -> None:
        self._ongoing[first_offset] = producer_id
        self._unstable[first_offset] = None
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def end(self, first_offset: int, marker_offset: int) -> None:
        del self._ongoing[first_offset]
        self.undecided_markers.append((marker_offset, first_offset))

    def hold_back(self, start_offset: int, end_offset: int) -> None:
        """Lets nothing from the first offset on be stable until everything below the second one is committed: markers
        between them, which nobody remembers, may still be lost."""
        if start_offset not in self._unstable:
            self._unstable[start_offset] = None
            self._unstable.move_to_end(start_offset, last=False)
            self.undecided_markers.appendleft((end_offset - 1, start_offset))
            self.first_unstable_offset = start_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forgets the transactions whose markers are below it: they are decided for good."""
        markers = self.undecided_markers
        while markers and markers[0][0] < high_watermark:
            del self._unstable[markers.popleft()[1]]
        self.first_unstable_offset = next(iter(self._unstable), None)
