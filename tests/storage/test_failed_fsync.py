"""A dir that failed, and a broker that is started again on the same machine: what it may believe."""

from pathlib import Path

from barnabas.broker.system.disk import OsFiles
from barnabas.storage.metadata_files import FAILED_DIR_FILE
from tests.storage.logs import Broker, append, offsets_of


def test_what_an_fsync_could_not_write_is_not_taken_for_written_after_a_start() -> None:
    broker = Broker()
    log = broker.log()
    for _ in range(3):
        append(log)
    log.flush()
    broker.settle()
    for _ in range(2):
        append(log)
    broker.disk.failing_syncs.add(".log")
    log.flush()
    broker.settle()
    assert log.is_offline
    broker.disk.failing_syncs.clear()
    broker.kill()
    log = broker.log()
    assert offsets_of(log) == [0, 1, 2], "the page cache has more, and will not write it"
    append(log)
    log.flush()
    broker.settle()
    broker.cut_power()
    assert offsets_of(broker.log()) == [0, 1, 2, 3]
    assert not broker.files.exists(f"/data/{FAILED_DIR_FILE}")


def test_a_file_shows_the_same_without_its_cache(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "log"), create=True)
    file.writev([b"written", b" or not"])
    file.drop_cache()
    assert file.pread(100, 0) == b"written or not"
