"""The simulated disk keeps count of its bytes, and a sync of what was appended makes the whole file durable."""

from random import Random

import pytest

from tests.simulation.files import SimulatedFile, SimulatedFiles
from tests.simulation.inodes import used_bytes


def walked(files: SimulatedFiles) -> int:
    return used_bytes(files._root)


@pytest.mark.parametrize("seed", range(10))
def test_used_bytes_are_those_of_all_files_that_have_a_name(seed: int) -> None:
    random, files = Random(seed), SimulatedFiles(Random(seed))
    files.makedirs("/data/a")
    files.sync_all()
    handles: list[SimulatedFile] = []
    for _ in range(300):
        path = f"/data/a/{random.randrange(4)}"
        match random.randrange(7):
            case 0 | 1 | 2:
                handles.append(files.open(path, create=True))
                handles[-1].writev([random.randbytes(random.randrange(100))])
            case 3 if files.exists(path):
                files.rename(path, f"/data/a/{random.randrange(4)}")
            case 4:
                files.remove(path)
            case 5 if handles:
                random.choice(handles).truncate(random.randrange(100))
            case 6 if random.random() < 0.2:
                files.cut_power() if random.random() < 0.5 else files.rmtree("/data/a")
                files.makedirs("/data/a")
                handles.clear()
        if handles and random.random() < 0.3:
            handles[-1].sync()
        assert files.used_bytes() == walked(files)


@pytest.mark.parametrize("seed", range(10))
def test_what_was_synced_is_what_was_written_whatever_was_cut_and_written_before(seed: int) -> None:
    random, files = Random(seed), SimulatedFiles(Random(seed))
    files.makedirs("/data")
    file = files.open("/data/log", create=True)
    files.sync_all()
    expected = bytearray()
    for _ in range(30):
        if random.random() < 0.7:
            data = random.randbytes(random.randrange(1, 200))
            file.writev([data])
            expected += data
        else:
            size = random.randrange(len(expected) + 1)
            file.truncate(size)
            del expected[size:]
        if random.random() < 0.3:
            file.sync()
    file.sync()
    files.cut_power()
    assert files.read_bytes("/data/log") == expected


def test_a_bit_that_flipped_stays_flipped_when_the_file_is_synced() -> None:
    files = SimulatedFiles(Random(1))
    files.makedirs("/data")
    file = files.open("/data/log", create=True)
    file.writev([b"good"])
    files.sync_all()
    files.flip_bit("/data/log", 0)
    rotten = files.read_bytes("/data/log")
    file.sync()
    files.cut_power()
    assert files.read_bytes("/data/log") == rotten != b"good"
