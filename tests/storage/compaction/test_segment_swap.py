"""How a cleaned segment takes the place of old ones when something is missing."""

import errno
import os
from contextlib import suppress
from random import Random

import pytest

from barnabas.base.files import write_file
from barnabas.storage.opening.unfinished_files import clear_unfinished
from tests.fakes import FakeReport
from tests.simulation.files import Crash, SimulatedFiles
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


SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


@pytest.mark.parametrize("changes", range(12))
def test_a_swap_that_a_start_completes_keeps_its_transaction_index(changes: int) -> None:
    """Without it the aborted transactions would seem committed, and the log could not be compacted any more."""
    for seed in range(40):
        files = SimulatedFiles(Random(seed))
        files.makedirs("/t-0")
        for suffix in SUFFIXES:
            write_file(files, f"/t-0/{0:020d}{suffix}.swap", suffix.encode(), sync=True)
        files.sync_dir("/")
        files.sync_dir("/t-0")
        for stop in (files.kill, files.cut_power):
            files.crash_after(changes)
            with suppress(Crash):
                clear_unfinished(files, "/t-0", FakeReport())
            stop()
        assert {f"{0:020d}.log", f"{0:020d}.txnindex"} <= clear_unfinished(files, "/t-0", FakeReport())


def test_the_transaction_index_takes_its_name_when_its_log_has_its_own() -> None:
    run = Interrupted(0)
    log, disk, queue = run.log, run.broker.disk, run.broker.queue
    queue.do()
    write_file(disk, f"{log.path}/{0:020d}.txnindex.cleaned", b"", sync=True)
    while log.segments[0].size == 700 or log.segments[0].path.endswith(".swap"):
        queue.do()
    assert disk.exists(f"{log.path}/{0:020d}.txnindex.swap"), "no sync has made the log's name durable"
    run.finish()
    assert disk.exists(f"{log.path}/{0:020d}.txnindex")
