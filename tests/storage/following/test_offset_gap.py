"""A follower whose leader has compacted more offsets away than an index can reach."""

import pytest

from barnabas.protocol.errors import KafkaStorageError
from tests.simulation.files import Crash
from tests.storage.following.test_log_follower import follow, leaders_batch
from tests.storage.logs import ORDERS, Broker, offsets_of

FAR = 3_000_000_000
CASES = [
    [0, 1, FAR, FAR + 1, 2 * FAR],
    [FAR, FAR + 1],  # nothing is left of the beginning
    [0, 2**31 - 1],  # just within reach
    [0, 2**31],  # and just not
]


@pytest.mark.parametrize("offsets", CASES)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("stop", ["restart", "kill", "cut_power"])
def test_what_lies_behind_the_gap_is_stored_and_found_again(offsets: list[int], stop: str, *, at_once: bool) -> None:
    broker = Broker(queued=True)
    log = broker.log(index_interval_bytes=0)
    batches = [leaders_batch(offset, epoch=1) for offset in offsets]
    for together in [batches] if at_once else [[each] for each in batches]:
        follow(log, *together)
    assert offsets_of(log) == offsets
    log.flush()
    broker.settle()
    getattr(broker, stop)()
    log = broker.log()
    assert (offsets_of(log), log.log_start_offset, log.log_end_offset) == (offsets, 0, offsets[-1] + 1)
    assert log.epoch_of_offset(offsets[-1]) == 1
    log.truncate_to(offsets[-1])
    follow(log, leaders_batch(offsets[-1], epoch=2))
    assert offsets_of(log) == offsets


@pytest.mark.parametrize("changes", range(24))
@pytest.mark.parametrize("stop", ["kill", "cut_power"])
def test_a_crash_leaves_the_log_as_it_was_or_whole(changes: int, stop: str) -> None:
    broker = Broker()
    log = broker.log(flush_messages=1)
    follow(log, leaders_batch(0))
    broker.settle()
    broker.disk.crash_after(changes)
    expected = [0]
    try:
        follow(log, leaders_batch(FAR))
        broker.settle()
        expected = [0, FAR]
    except Crash:
        pass
    getattr(broker, stop)()
    log = broker.log()
    assert offsets_of(log) in ([0, FAR], expected)
    follow(log, leaders_batch(2 * FAR))
    assert offsets_of(log)[-1] == 2 * FAR


def test_a_disk_without_room_for_it_refuses_the_append_and_takes_it_later() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    follow(log, leaders_batch(0))
    broker.disk.capacity_bytes = broker.disk.used_bytes()
    with pytest.raises(KafkaStorageError, match="full"):
        follow(log, leaders_batch(FAR))
    assert (log.log_end_offset, broker.manager.log_dirs[0].recovery_points.get(ORDERS, 0)) == (1, 0)
    broker.disk.capacity_bytes = 1 << 40
    follow(log, leaders_batch(FAR))
    assert offsets_of(log) == [0, FAR]
    assert not log.is_offline
