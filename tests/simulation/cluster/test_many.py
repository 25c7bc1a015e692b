"""Long runs are kept, go on where they were stopped, and name what failed."""

from pathlib import Path
from unittest.mock import patch

from barnabas.replication.isr import InSyncReplicas
from tests.simulation.cluster.many import Total, read_outcomes, run_many


def test_seeds_that_are_known_are_not_run_again(tmp_path: Path) -> None:
    path, told = tmp_path / "seeds.jsonl", list[Total]()
    first = run_many(range(2), path, told.append, processes=1)
    assert (first.seeds, first.failed, told[0].seeds, told[-1]) == (2, (), 0, first)
    assert first.simulated_s > 60
    before = path.read_text()
    assert run_many(range(2), path, told.append, processes=1) == first
    assert path.read_text() == before


def test_a_line_that_was_half_written_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "seeds.jsonl"
    whole = run_many(range(1), path, lambda _: None, processes=1)
    path.write_text(path.read_text()[:-5] + "\n")
    assert list(read_outcomes(path)) == []
    assert run_many(range(1), path, lambda _: None, processes=1) == whole


def test_what_fails_is_counted_and_named(tmp_path: Path) -> None:
    with patch.object(InSyncReplicas, "high_watermark", lambda self, *_: self.own_offset):
        total = run_many([9], tmp_path / "seeds.jsonl", lambda _: None, processes=1)
    (outcome,) = total.failed
    assert (outcome.seed, outcome.reason) == (9, "I13")
    assert outcome.failure.startswith("I13: ")
