"""The production disk, and the cap on its handles."""

import os
from pathlib import Path
from random import Random

import pytest

from barnabas.base.files import FileSlice, make_durable_dir, replace_file, write_file
from barnabas.broker.system.disk import OsFiles
from barnabas.storage.segments.file_cache import FileCache
from tests.simulation.files import Crash, SimulatedFiles

FILES = OsFiles()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_grows_at_its_end_and_is_read_anywhere(tmp_path: Path) -> None:
    file = FILES.open(f"{tmp_path}/a", create=True)
    assert file.writev([b"one", memoryview(b"two"), bytearray(b"three")]) == 11
    file.truncate(6)
    file.writev([b"!"])
    assert file.pread(100, 3) == b"two!"
    assert (file.size(), FILES.file_size(f"{tmp_path}/a")) == (7, 7)


def test_what_is_not_there_is_not_created_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(f"{tmp_path}/a")
    FILES.remove(f"{tmp_path}/a")
    FILES.rmtree(f"{tmp_path}/d")
    assert not FILES.exists(f"{tmp_path}/a")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = f"{tmp_path}/checkpoint"
    write_file(FILES, path, b"old and longer", sync=False)
    replace_file(FILES, path, b"new")
    assert FILES.read_bytes(path) == b"new"
    assert FILES.listdir(str(tmp_path)) == ["checkpoint"]


@pytest.mark.parametrize("seed", range(50))
def test_a_file_that_is_replaced_while_the_power_goes_holds_the_old_bytes_or_the_new(seed: int) -> None:
    disk = SimulatedFiles(Random(seed))
    disk.makedirs("/data")
    disk.sync_dir("/")
    old, new = bytes(300), b"n" * 300
    replace_file(disk, "/data/checkpoint", old)
    disk.crash_after(seed % 5)
    try:
        replace_file(disk, "/data/checkpoint", new)
        allowed = {new}
    except Crash:
        allowed = {old, new}
    disk.cut_power()
    assert disk.read_bytes("/data/checkpoint") in allowed


def test_a_sync_reaches_the_kernel_and_its_refusal_is_told(tmp_path: Path) -> None:
    """What cannot be synced is the one thing that tells whether anybody tried."""
    with pytest.raises(OSError, match="Invalid argument"):
        FILES.open("/dev/null").sync()
    with pytest.raises(FileNotFoundError):
        FILES.sync_dir(f"{tmp_path}/missing")
    FILES.open(f"{tmp_path}/a", create=True).sync()
    FILES.sync_dir(str(tmp_path))


def test_a_directory_is_listed_with_sizes(tmp_path: Path) -> None:
    write_file(FILES, f"{tmp_path}/a", b"12345", sync=True)
    make_durable_dir(FILES, f"{tmp_path}/b/c")
    assert sorted(FILES.scandir(str(tmp_path))) == [("a", 5), ("b", -1)]
    assert FILES.exists(f"{tmp_path}/b/c")


def test_a_lock_is_held_against_others_even_of_this_process(tmp_path: Path) -> None:
    lock = FILES.lock(f"{tmp_path}/.lock")
    with pytest.raises(BlockingIOError):
        FILES.lock(f"{tmp_path}/.lock")
    lock.release()
    FILES.lock(f"{tmp_path}/.lock").release()


def test_the_disk_tells_its_space(tmp_path: Path) -> None:
    assert 0 < FILES.free_bytes(str(tmp_path)) <= FILES.total_bytes(str(tmp_path))


def test_handles_are_capped_and_the_least_used_goes_first(tmp_path: Path) -> None:
    cache = FileCache(FILES, 2)
    before = open_descriptors()
    for name in "abcabd":
        cache.open(f"{tmp_path}/{name}", create=True).writev([name.encode()])
    assert (len(cache), open_descriptors() - before) == (2, 2)
    assert cache.open(f"{tmp_path}/a").pread(9, 0) == b"aa"
    cache.forget_all()
    assert open_descriptors() == before


def test_a_file_that_a_slice_holds_outlives_the_cache_and_its_name(tmp_path: Path) -> None:
    cache = FileCache(FILES, 1)
    path = f"{tmp_path}/a"
    cache.open(path, create=True).writev([b"0123456789"])
    found = FileSlice(cache.open(path), 2, 5)
    cache.open(f"{tmp_path}/b", create=True)
    FILES.remove(path)
    assert (found.read(), len(found)) == (b"23456", 5)
    assert os.pread(found.fileno(), found.size, found.position) == b"23456"
    before = open_descriptors()
    del found
    assert open_descriptors() == before - 1
