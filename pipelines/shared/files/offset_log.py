"""What Spark notes in a query's checkpoint before it runs a batch: which offsets it reads, and under which watermark.

The notes are the same when the batch is run again after a crash, and so is whatever is derived from them.
"""

import json
from typing import NamedTuple

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files

Offsets = dict[str, dict[str, int]]
"""Offsets as Spark's Kafka source writes them: topic, then partition (as text), then offset."""

EARLIEST = -2
"""Stands for the first offset of a partition that was added since."""


class BatchRange(NamedTuple):
    spans: dict[tuple[str, int], range]
    """Spans only of partitions that have something to read."""
    late_watermark_ms: int
    """A row whose window ended by then is late: the previous batch wrote windows up to there."""


class Note(NamedTuple):
    offsets: Offsets
    watermark_ms: int


def batch_range(checkpoint: Files, batch_id: int) -> BatchRange:
    noted = _note(checkpoint, batch_id)
    before = Note(_first_offsets(checkpoint), 0) if batch_id == 0 else _note(checkpoint, batch_id - 1)
    spans = {
        (topic, int(number)): range(before.offsets.get(topic, {}).get(number, EARLIEST), end)
        for topic, partitions in noted.offsets.items()
        for number, end in partitions.items()
    }
    return BatchRange({place: span for place, span in spans.items() if span}, before.watermark_ms)


def last_offsets(checkpoint: Files) -> Offsets | None:
    """Returns where the next batch begins, or the one that is to be run again; None if there was no batch."""
    done = [int(name) for name in checkpoint.names("commits") if name.isdecimal()]
    return _note(checkpoint, max(done)).offsets if done else None


def _note(checkpoint: Files, batch_id: int) -> Note:
    """Parses a version line, a line about the batch, and a line for each source (there is one)."""
    path = checkpoint.path("offsets", str(batch_id))
    lines = checkpoint.read_text(path).splitlines()
    if lines[:1] != ["v1"] or len(lines) != 3:
        raise Failure(f"{path} was written by a version of Spark that this job does not know: use PySpark 3.5 or 4.0")
    return Note(json.loads(lines[2]), json.loads(lines[1])["batchWatermarkMs"])


def _first_offsets(checkpoint: Files) -> Offsets:
    text = checkpoint.read_text(checkpoint.path("sources", "0", "0"))
    offsets: Offsets = json.loads(text[text.index("{") :])
    return offsets
