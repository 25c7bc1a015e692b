"""A million records are an everyday history: what the judge keeps for each is a few integers."""

import tracemalloc
from collections.abc import Iterator

from barnabas.verification import events
from barnabas.verification.events import Event
from barnabas.verification.judge import Judge

RECORDS = 100_000
BYTES_MAX = 100  # for each record: 100 MB for a million of them


def history() -> Iterator[Event]:
    yield events.Begin(0, "00" * 8, "orders", [0], "all", True, False)
    for name in ("reader-1", "read-back-1"):
        yield events.Consumer(0, name, name[:-2], None)
        yield events.Assigned(0, name, 0, 0)
    for sequence in range(RECORDS):
        yield events.Sent(sequence, 0, sequence, 0)
        yield events.Acknowledged(sequence, 0, sequence, sequence)
    for name in ("reader-1", "read-back-1"):
        for first in range(0, RECORDS, 500):
            yield events.Polled(0, name, 0, [(offset, 0, offset) for offset in range(first, first + 500)])
    yield events.Bounds(0, 0, 0, RECORDS)
    yield events.Ended(0, "read-back-1", 0, RECORDS)


def test_the_judge_keeps_a_few_integers_of_each_record() -> None:
    judge = Judge()
    tracemalloc.start()
    try:
        for event in history():
            judge.see(event)
        verdict = judge.verdict()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert verdict.counts.acknowledged == RECORDS
    assert verdict.findings.counts == {}
    assert peak_bytes < BYTES_MAX * RECORDS
