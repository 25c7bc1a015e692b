"""A truncation that fails halfway, and what the disk knows after one."""

import errno

import pytest

from barnabas.protocol.errors import KafkaError
from tests.storage.following.test_log_follower import filled
from tests.storage.logs import ORDERS


def test_a_disk_that_fails_meanwhile_takes_the_dir_offline() -> None:
    broker, log = filled(5)
    broker.settle()
    broker.disk.failing_syncs.add(log.path)
    with pytest.raises(KafkaError):
        log.truncate_to(2)
    assert log.is_offline


def test_a_shortage_of_descriptors_in_the_middle_of_it_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it does not. A log that is half cut must not be written on."""
    broker, log = filled(5)
    log.flusher.flush_now()

    def sync_dir(path: str) -> None:
        if path == log.path:
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(broker.files, "sync_dir", sync_dir)
    with pytest.raises(KafkaError):
        log.truncate_to(2)
    assert log.is_offline


def test_what_the_disk_knows_as_committed_goes_back_no_further_than_the_cut() -> None:
    broker, log = filled(8)
    broker.settle()
    log.log_dir.checkpoint_high_watermarks({ORDERS: 6})
    log.truncate_to(4)
    broker.kill()
    assert broker.log().high_watermark == 4
