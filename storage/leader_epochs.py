"""Which leader epoch wrote which offsets (KIP-101), kept in `leader-epoch-checkpoint`.

Epochs and their start offsets both ascend. The batches carry their epoch, so whatever of the file is lost in a crash
is found again while the log is recovered; entries beyond the log's two ends are dropped when it is opened.
"""

from array import array
from bisect import bisect_right

from barnabas.storage.checkpoints import CorruptCheckpoint, decode_checkpoint, encode_checkpoint

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    __slots__ = ("_epochs", "_start_offsets", "is_dirty", "latest")

    def __init__(self) -> None:
        self._epochs = array("i")
        self._start_offsets = array("q")
        self.latest = NO_EPOCH
        self.is_dirty = False
        """The file does not hold this state."""

    @classmethod
    def from_bytes(cls, data: bytes) -> "LeaderEpochs":
        epochs = cls()
        try:
            for epoch, start_offset in decode_checkpoint(data):
                epochs.assign(int(epoch), int(start_offset))
        except (ValueError, OverflowError) as error:
            raise CorruptCheckpoint(f"malformed entry: {error}") from None
        epochs.is_dirty = False
        return epochs

    def to_bytes(self) -> bytes:
        return encode_checkpoint(f"{epoch} {start}" for epoch, start in zip(self._epochs, self._start_offsets))

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._start_offsets))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begins the epoch here. Entries at the end that contradict it were never committed and are dropped."""
        if epoch < 0 or (epoch == self.latest and start_offset >= self._start_offsets[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset):
            self._drop_last()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest = epoch
        self.is_dirty = True

    def truncate_from_end(self, end_offset: int) -> None:
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._drop_last()

    def clear(self) -> None:
        while self._epochs:
            self._drop_last()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets epochs that ended before the offset; the one that holds it begins there from now on."""
        count = bisect_right(self._start_offsets, start_offset)
        if count > 1:
            del self._epochs[: count - 1], self._start_offsets[: count - 1]
        if count and self._start_offsets[0] < start_offset:
            self._start_offsets[0] = start_offset
            self.is_dirty = True

    def _drop_last(self) -> None:
        self._epochs.pop()
        self._start_offsets.pop()
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.is_dirty = True

    def epoch_of_offset(self, offset: int) -> int:
        slot = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_EPOCH

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Returns the largest epoch not above this one, and where it ended; (-1, -1) if that is not known."""
        if leader_epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if leader_epoch == self.latest:
            return leader_epoch, log_end_offset
        higher = bisect_right(self._epochs, leader_epoch)
        if higher == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        epoch = self._epochs[higher - 1] if higher else leader_epoch
        return epoch, self._start_offsets[higher]
