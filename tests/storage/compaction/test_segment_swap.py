"""How a cleaned segment takes the place of old ones when something is missing."""

import errno
import os

import pytest

from tests.storage.compaction.test_cleaner import Interrupted

LATEST = [(9, b"0", b"9"), (19, b"1", b"9"), (29, b"2", b"9")]


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_nothing_gives_way_to_a_segment_that_is_not_there(suffix: str) -> None:
    run = Interrupted(1)
    run.broker.files.remove(f"{run.log.path}/{0:020d}{suffix}.cleaned")
    run.broker.queue.do()
    assert len(run.compacted.records()) == 30
    run.finish()
    assert run.compacted.records() == LATEST, "it was tried again"
    assert not run.log.is_offline


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_shortage_of_descriptors_only_puts_it_off(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Interrupted(steps)

    def refuse(path: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    with monkeypatch.context() as patch:
        patch.setattr(run.broker.files, "sync_dir", refuse)
        run.broker.queue.do()
    assert [record for record in run.compacted.records() if record in LATEST] == LATEST
    run.finish()
    assert run.compacted.records() == LATEST
    assert not run.log.is_offline


def test_no_run_begins_before_the_files_of_a_failed_one_are_gone() -> None:
    run = Interrupted(0)
    cleaner, queue = run.broker.manager.cleaner, run.broker.queue
    run.broker.disk.capacity_bytes = run.broker.disk.used_bytes()
    queue.do()
    assert cleaner.failures == 1
    cleaner.forget(run.compacted.partition)  # as a truncation does
    run.log.compaction.check_cleanable(run.broker.clock.now_ms())
    run.broker.clock.advance(2_000)
    assert not cleaner.is_running, "its files would be removed"
    run.broker.disk.capacity_bytes = 1 << 40
    run.finish()
    assert run.compacted.records() == LATEST
