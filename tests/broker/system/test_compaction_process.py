"""Compaction in a process: what it says arrives, and it is gone when nobody wants it any more."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.broker.system.compaction_process import CompactionProcess
from barnabas.broker.system.loop import Loop
from barnabas.broker.system.workers import ThreadWorkers
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.records import NewRecord
from barnabas.storage.compaction.job import (
    CleanedSegment,
    CompactionFailed,
    CompactionJob,
    CompactionStats,
    SegmentToClean,
)
from barnabas.storage.log_config import DOUBLE_MAX
from barnabas.storage.segments.transaction_index import AbortedTransaction

WAIT_MS = 30_000


class Shell:
    """A loop, and what the compactor told it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.loop = Loop(self._on_error)
        self.workers = ThreadWorkers(self.loop)
        self.compactor = CompactionProcess(self.loop, self.workers)
        self.cleaned: list[CleanedSegment] = []
        self.done: list[tuple[CompactionStats | None, BaseException | None]] = []

    def _on_error(self, error: BaseException) -> None:
        raise AssertionError from error

    def process(self) -> subprocess.Popen[bytes]:
        process = self.compactor._process
        assert process is not None
        return process

    def start(self, *, io_max_bytes_per_second: float = DOUBLE_MAX) -> None:
        job = CompactionJob(
            str(self.directory),
            (SegmentToClean(0, os.path.getsize(self.directory / f"{0:020d}.log"), 0, 0),),
            first_dirty_offset=0,
            end_offset=1_000,
            now_ms=0,
            delete_retention_ms=0,
            segment_bytes=1 << 30,
            segment_index_bytes=1 << 20,
            index_interval_bytes=4_096,
            aborted=(AbortedTransaction(0, 9, 1, 2),),
            producers={9: (1, 2)},
            map_bytes=1 << 20,
            map_load_factor=0.9,
            io_max_bytes_per_second=io_max_bytes_per_second,
        )
        self.compactor.start(job, self.cleaned.append, lambda *result: self.done.append(result))

    def run_until(self, condition: Callable[[], bool]) -> None:
        deadline_ms = self.loop.monotonic_ms() + WAIT_MS
        while not condition():
            assert self.loop.monotonic_ms() < deadline_ms
            self.loop.call_later(10, lambda: None)
            self.loop.run_once()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    batches = [
        build_batch([NewRecord(b"%d" % (number % 10), bytes(90), (), 0)], base_offset=number) for number in range(1_000)
    ]
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(batches))
    shell = Shell(tmp_path)
    yield shell
    shell.compactor.cancel()
    shell.workers.close()
    shell.loop.close()


def test_two_jobs_are_done_by_one_process(shell: Shell) -> None:
    shell.start()
    shell.run_until(lambda: bool(shell.done))
    first = shell.process().pid
    shell.start()
    shell.run_until(lambda: len(shell.done) == 2)
    assert shell.process().pid == first
    assert [error for _, error in shell.done] == [None, None]
    stats = shell.done[0][0]
    assert stats is not None
    assert (stats.end_offset, stats.records_before, stats.records_after, stats.keys) == (1_000, 1_000, 10, 10)
    assert [cleaned.replaced for cleaned in shell.cleaned] == [(0,), (0,)]
    size = (shell.directory / f"{0:020d}.log.cleaned").stat().st_size
    assert {cleaned.size_bytes for cleaned in shell.cleaned} == {stats.bytes_after} == {size}


def test_a_rotten_batch_is_told(shell: Shell) -> None:
    path = shell.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[5_000] ^= 1
    path.write_bytes(data)
    shell.start()
    shell.run_until(lambda: bool(shell.done))
    ((stats, error),) = shell.done
    assert stats is None
    assert isinstance(error, CompactionFailed)
    assert error.is_corrupt


def test_a_directory_that_is_gone_is_an_error_of_the_disk(shell: Shell) -> None:
    shell.start()
    (shell.directory / f"{0:020d}.log").unlink()
    shell.run_until(lambda: bool(shell.done))
    ((_, error),) = shell.done
    assert isinstance(error, CompactionFailed)
    assert (error.is_corrupt, error.errno) == (False, 2)


@pytest.mark.parametrize("when", ["at once", "at work"])
def test_who_is_cancelled_is_gone_and_says_nothing(shell: Shell, when: str) -> None:
    shell.start(io_max_bytes_per_second=1_000)
    if when == "at work":
        shell.run_until(lambda: shell.compactor._process is not None)
        process = shell.process()
    shell.compactor.cancel()
    assert shell.compactor._process is None
    if when == "at work":
        shell.run_until(lambda: process.returncode is not None)
    shell.start()
    shell.run_until(lambda: bool(shell.done))
    assert [error for _, error in shell.done] == [None]


def test_a_process_that_is_killed_is_told_of_and_the_next_job_gets_another(shell: Shell) -> None:
    shell.start(io_max_bytes_per_second=1_000)
    shell.run_until(lambda: shell.compactor._process is not None)
    shell.process().kill()
    shell.run_until(lambda: bool(shell.done))
    ((_, error),) = shell.done
    assert str(error) == "the process that did it ended"
    shell.start()
    shell.run_until(lambda: len(shell.done) == 2)
    assert shell.done[1][1] is None
