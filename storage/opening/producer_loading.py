"""Rebuilds the state of a log's producers as of an offset: from the latest good snapshot and the batches after it."""

from barnabas.storage.log_dir import LogDir
from barnabas.storage.producer_snapshot import CorruptSnapshot, read_snapshot
from barnabas.storage.producer_state import ProducerState, replay_batch
from barnabas.storage.segments.batches import scan_batches
from barnabas.storage.segments.segment import SNAPSHOT_SUFFIX, Segment, file_name


class ProducerLoader:
    def __init__(self, log_dir: LogDir, path: str, now_ms: int) -> None:
        self._log_dir = log_dir
        self._path = path
        self._now_ms = now_ms

    def load(self, segments: list[Segment], snapshots: list[int], offset: int, *, is_clean: bool) -> ProducerState:
        """Returns the state as of this offset. `snapshots` are the offsets of those that exist, in order."""
        first_offset = segments[0].base_offset if segments else offset
        producers = ProducerState(first_offset)
        usable = [snapshot for snapshot in snapshots if first_offset <= snapshot <= offset]
        found = self._load_snapshot(producers, usable)
        if found or not is_clean:  # as in Kafka: no snapshot after a clean stop means that there was no producer
            producers = _replayed(producers, segments, offset)
        return producers

    def _load_snapshot(self, producers: ProducerState, snapshots: list[int]) -> bool:
        for snapshot in reversed(snapshots):
            path = f"{self._path}/{file_name(snapshot, SNAPSHOT_SUFFIX)}"
            try:
                entries = read_snapshot(self._log_dir.files.read_bytes(path))
            except CorruptSnapshot as error:
                text = f"{self._path}: producer snapshot {snapshot} cannot be read: {error}"
                self._log_dir.report.warning(text, log_dir=self._log_dir.path)
                continue
            producers.load(snapshot, entries, self._now_ms, self._log_dir.config.producer_id_expiration_ms)
            return True
        return False


def _replayed(producers: ProducerState, segments: list[Segment], end: int) -> ProducerState:
    """Returns the state at `end`. Begins again after a gap: a state that misses batches would refuse good ones."""
    start = producers.end_offset
    for slot, segment in enumerate(segments):
        next_base = segments[slot + 1].base_offset if slot + 1 < len(segments) else end
        if start < next_base and segment.base_offset < end:
            if segment.base_offset > start:
                producers = ProducerState(segment.base_offset)
            for _, header, batch in scan_batches(segment.file(), segment.position_of(start), segment.size):
                if header.base_offset >= end:
                    return producers
                if header.producer_id >= 0:
                    replay_batch(producers, header, batch, header.base_offset)
            start = next_base  # what is missing at a segment's end was compacted away
    return producers
