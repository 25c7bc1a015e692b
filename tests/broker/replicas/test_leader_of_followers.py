"""A leader with followers: what they have decides what is committed, read, acknowledged and deleted."""

import errno

import pytest

from barnabas.base.files import FileSlice
from barnabas.broker.replicas import uncommitted
from barnabas.broker.replicas.leader import ACKS_ALL, ACKS_LEADER, LeaderPartition
from barnabas.broker.replicas.partition import Isolation
from barnabas.protocol.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
)
from barnabas.replication.metadata.image import PartitionImage
from barnabas.storage.append_info import AppendInfo
from tests.broker.replicas.leaders import Appended, Brokers
from tests.storage.logs import NOW_MS, ORDERS, TOPIC_ID, Broker, batch

NEVER = 2**63 - 1
EPOCHS = {1: 10, 2: 20, 3: 30}
OF_THREE = PartitionImage(leader=1, leader_epoch=4, partition_epoch=6, replicas=(1, 2, 3), isr=(1, 2, 3))


class Sizes:
    """A fetch that waits, and is told of bytes."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def on_bytes(self, size: int) -> None:
        self.told.append(size)


class Scene:
    def __init__(
        self,
        described: PartitionImage = OF_THREE,
        *,
        min_insync_replicas: int = 1,
        queued: bool = False,
        flush_messages: int = 0,
    ) -> None:
        self.storage = Broker(queued=queued)
        self.brokers = Brokers(EPOCHS)
        flush_messages = flush_messages or (1 if queued else NEVER)
        log = self.storage.log(flush_messages=flush_messages, min_insync_replicas=min_insync_replicas)
        self.partition = LeaderPartition(ORDERS, TOPIC_ID, log, described, self.brokers)
        self.told: list[str] = []

    def append(self, acks: int = ACKS_ALL, timeout_ms: int = 30_000) -> AppendInfo:
        info = self.partition.append(memoryview(batch()), NOW_MS)
        if self.partition.is_acknowledged(info, acks):
            self.told.append("at once")
        else:
            self.partition.when_acknowledged(info, acks, Appended(self._tell), timeout_ms)
        return info

    def _tell(self, error: KafkaError | None) -> None:
        self.told.append("acknowledged" if error is None else ErrorCode(error.code).name)

    def fetched(self, replica: int, offset: int, *, start: int = 0, broker_epoch: int | None = None) -> None:
        epoch = EPOCHS[replica] if broker_epoch is None else broker_epoch
        self.partition.follower_fetched(replica, epoch, offset, start, self.storage.clock.monotonic_ms())

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark


# ---- acknowledged


def test_an_append_is_acknowledged_when_every_in_sync_replica_has_it() -> None:
    scene = Scene()
    scene.append()
    scene.fetched(2, 1)
    assert (scene.told, scene.high_watermark) == ([], 0)
    scene.fetched(3, 1)
    assert (scene.told, scene.high_watermark) == (["acknowledged"], 1)


def test_the_leader_alone_acknowledges_to_those_who_ask_for_no_more() -> None:
    scene = Scene()
    scene.append(ACKS_LEADER)
    assert (scene.told, scene.high_watermark) == (["at once"], 0)


def test_under_the_fsync_policy_the_leaders_disk_counts_too() -> None:
    scene = Scene(queued=True)
    scene.append()
    scene.fetched(2, 1)
    scene.fetched(3, 1)
    assert scene.high_watermark == 0
    scene.storage.settle()
    assert (scene.told, scene.high_watermark) == (["acknowledged"], 1)


def test_the_append_that_asks_for_a_flush_waits_for_it_also_when_every_replica_has_it() -> None:
    scene = Scene(queued=True, flush_messages=3)
    for _ in range(3):
        scene.append()
    scene.fetched(2, 2)
    scene.fetched(3, 2)
    assert (scene.told, scene.high_watermark) == ([], 2), "two of them might go, but the flush comes at once"
    scene.fetched(2, 3)
    scene.fetched(3, 3)
    assert (scene.told, scene.high_watermark) == ([], 3)
    scene.storage.settle()
    assert scene.told == ["acknowledged"] * 3
    scene.append()
    scene.fetched(2, 4)
    scene.fetched(3, 4)
    assert scene.told == ["acknowledged"] * 4, "it asks for no flush"


def test_a_leader_that_cannot_commit_for_long_remembers_a_bounded_number_of_appends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uncommitted, "_APPENDS_MAX", 3)
    scene, sizes = Scene(), Sizes()
    scene.partition.wait(sizes, Isolation.HIGH_WATERMARK)
    for _ in range(10):
        scene.append(ACKS_LEADER)
    assert len(scene.partition._uncommitted.appends) == 3
    scene.fetched(2, 10)
    scene.fetched(3, 10)
    assert sizes.told == [10 * len(batch())]
    assert not scene.partition._uncommitted.appends


def test_an_answer_to_a_leader_that_has_gone_moves_nothing() -> None:
    scene = Scene(OF_THREE._replace(isr=(1, 2)))
    scene.append()
    scene.fetched(3, 1)
    change = scene.brokers.proposed[0]
    scene.partition.detach()
    scene.partition.log.truncate_to(0)
    scene.partition.on_isr_committed(change, (1,), 7)
    assert scene.high_watermark == 0


def test_an_append_that_is_not_committed_in_time_is_answered_so() -> None:
    scene = Scene()
    scene.append(timeout_ms=100)
    scene.append(timeout_ms=50)
    scene.append(timeout_ms=1_000)
    scene.storage.clock.advance(60)
    assert scene.told == ["REQUEST_TIMED_OUT"]
    scene.storage.clock.advance(60)
    assert scene.told == ["REQUEST_TIMED_OUT"] * 2
    scene.fetched(2, 3)
    scene.fetched(3, 3)
    assert scene.told == [*["REQUEST_TIMED_OUT"] * 2, "acknowledged"]


def test_with_too_few_in_sync_nothing_is_taken_that_asks_for_all() -> None:
    scene = Scene(OF_THREE._replace(isr=(1,)), min_insync_replicas=2)
    assert scene.partition.is_under_min_isr
    with pytest.raises(NotEnoughReplicas):
        scene.partition.check_min_isr()
    with pytest.raises(NotEnoughReplicas):
        scene.partition.append_as_coordinator(memoryview(batch()), NOW_MS)
    scene.append(ACKS_LEADER)
    assert (scene.told, scene.high_watermark) == (["at once"], 0), "it is there, and nobody reads it so far"


def test_when_the_controller_takes_out_a_replica_the_others_decide() -> None:
    scene = Scene()
    scene.append()
    scene.fetched(2, 1)
    scene.partition.adopt(OF_THREE._replace(isr=(1, 2), partition_epoch=7))
    assert (scene.told, scene.high_watermark) == (["acknowledged"], 1)


def test_who_waits_is_told_when_the_lead_is_lost_and_no_later_high_watermark_changes_that() -> None:
    scene = Scene()
    scene.append()
    scene.partition.detach()
    scene.partition.fail(NotLeaderOrFollower("elsewhere"))
    assert scene.told == ["NOT_LEADER_OR_FOLLOWER"]
    scene.fetched(2, 1)
    scene.fetched(3, 1)
    assert scene.told == ["NOT_LEADER_OR_FOLLOWER"]


# ---- followers


def test_followers_hear_of_an_append_and_consumers_of_what_is_committed() -> None:
    scene, heard = Scene(), Heard()
    scene.partition.wait_for_append(heard)
    scene.partition.wait(heard, Isolation.HIGH_WATERMARK)
    scene.append()
    assert heard.told == ["append"]
    scene.fetched(2, 1)
    scene.fetched(3, 1)
    assert heard.told == ["append", len(batch())]
    scene.partition.stop_waiting_for_append(heard)
    scene.append()
    assert heard.told == ["append", len(batch())]


def test_a_new_epoch_makes_followers_and_consumers_ask_again() -> None:
    scene, heard = Scene(), Heard()
    scene.partition.wait_for_append(heard)
    scene.partition.wait(heard, Isolation.HIGH_WATERMARK)
    scene.partition.adopt(OF_THREE._replace(leader_epoch=5, partition_epoch=7))
    assert heard.told == [0, "append"]


def test_one_that_is_no_replica_is_told_to_wait_for_the_metadata() -> None:
    scene = Scene(OF_THREE._replace(replicas=(1, 2), isr=(1, 2)))
    with pytest.raises(UnknownLeaderEpoch):
        scene.fetched(3, 0)


def test_a_fetch_from_an_earlier_life_of_a_follower_changes_nothing() -> None:
    scene = Scene()
    scene.append()
    scene.fetched(2, 1)
    with pytest.raises(NotLeaderOrFollower):
        scene.fetched(3, 1, broker_epoch=29)
    assert scene.high_watermark == 0


def test_a_follower_that_has_caught_up_joins() -> None:
    scene = Scene(OF_THREE._replace(isr=(1, 2)))
    scene.append()
    scene.fetched(2, 1)
    assert scene.high_watermark == 1
    scene.fetched(3, 0)
    assert scene.brokers.proposed == []
    scene.fetched(3, 1)
    (change,) = scene.brokers.proposed
    assert change.isr == (1, 2, 3)
    scene.append()
    scene.fetched(2, 2)
    assert scene.high_watermark == 1, "the one that is about to join counts already"
    scene.partition.on_isr_committed(change, (1, 2, 3), partition_epoch=7)
    scene.fetched(3, 2)
    assert scene.high_watermark == 2


def test_a_follower_that_has_fallen_behind_leaves_when_the_controller_agrees() -> None:
    scene = Scene()
    scene.append(timeout_ms=60_000)
    scene.storage.clock.advance(30_001)
    scene.fetched(2, 1)
    scene.partition.check_lag()
    (change,) = scene.brokers.proposed
    assert (change.isr, scene.told) == ((1, 2), [])
    scene.partition.on_isr_committed(change, change.isr, partition_epoch=7)
    assert (scene.told, scene.high_watermark) == (["acknowledged"], 1)


def test_nobody_falls_behind_a_leader_whose_disk_has_failed() -> None:
    scene = Scene()
    scene.append()
    scene.partition.log.log_dir.go_offline(OSError("broken"))
    scene.storage.clock.advance(60_000)
    scene.partition.check_lag()
    assert scene.brokers.proposed == []


def test_a_new_leader_does_not_say_where_the_log_ends_before_it_knows() -> None:
    scene = Scene()
    scene.append()
    scene.fetched(2, 1)
    scene.fetched(3, 1)
    scene.append()
    scene.partition.adopt(OF_THREE._replace(leader_epoch=5, partition_epoch=7))
    with pytest.raises(OffsetNotAvailable):
        scene.partition.check_offsets_available()
    scene.fetched(2, 2)
    scene.fetched(3, 2)
    scene.partition.check_offsets_available()


def test_what_the_only_replica_has_committed_stays_committed_when_others_are_added() -> None:
    alone = PartitionImage(leader=1, leader_epoch=4, partition_epoch=6, replicas=(1,), isr=(1,))
    scene = Scene(alone, min_insync_replicas=2)
    for _ in range(3):
        scene.append()
    scene.partition.adopt(alone._replace(replicas=(1, 2), adding_replicas=(2,), partition_epoch=7))
    assert scene.high_watermark == 3
    scene.fetched(2, 0)
    assert scene.brokers.proposed == [], "it has nothing of what was acknowledged"
    scene.fetched(2, 3)
    assert [change.isr for change in scene.brokers.proposed] == [(1, 2)]


# ---- the high watermark on the disk


def test_a_replicated_log_begins_with_what_it_had_committed_before() -> None:
    scene = Scene()
    for offset in range(3):
        scene.append()
        scene.fetched(2, offset)
        scene.fetched(3, offset)
    log = scene.partition.log
    log.log_dir.checkpoint_high_watermarks({ORDERS: log.high_watermark})
    scene.storage.restart()
    again = LeaderPartition(ORDERS, TOPIC_ID, scene.storage.log(flush_messages=NEVER), OF_THREE, scene.brokers)
    assert (again.log.high_watermark, again.log.log_end_offset) == (2, 3)


def test_a_replicated_log_of_which_the_disk_knows_nothing_has_committed_nothing() -> None:
    scene = Scene()
    scene.append()
    scene.partition.log.log_dir.high_watermarks.clear()
    scene.storage.restart()
    again = LeaderPartition(ORDERS, TOPIC_ID, scene.storage.log(flush_messages=NEVER), OF_THREE, scene.brokers)
    assert again.log.high_watermark == 0


# ---- deletion


def test_a_deletion_is_answered_when_every_living_replica_has_deleted_as_much() -> None:
    scene = Scene()
    for offset in range(3):
        scene.append()
        scene.fetched(2, offset + 1)
        scene.fetched(3, offset + 1)
    deleted = scene.partition.delete_records(2, timeout_ms=1_000)
    assert not deleted.done
    scene.fetched(2, 3, start=2)
    assert not deleted.done
    scene.fetched(3, 3, start=2)
    assert deleted.value == 2


def test_a_deletion_does_not_wait_for_the_dead() -> None:
    scene = Scene()
    scene.append()
    scene.fetched(2, 1)
    scene.fetched(3, 1)
    deleted = scene.partition.delete_records(-1, timeout_ms=1_000)
    scene.fetched(2, 1, start=1)
    del scene.brokers.active[3]
    scene.partition.on_brokers_changed()
    assert deleted.value == 1


def test_a_deletion_that_takes_too_long_is_answered_so() -> None:
    scene = Scene()
    scene.append()
    scene.fetched(2, 1)
    scene.fetched(3, 1)
    deleted = scene.partition.delete_records(1, timeout_ms=1_000)
    scene.storage.clock.advance(1_001)
    assert isinstance(deleted.error, KafkaError)
    assert deleted.error.code == ErrorCode.REQUEST_TIMED_OUT


class Heard:
    def __init__(self) -> None:
        self.told: list[object] = []

    def on_append(self, _partition: LeaderPartition) -> None:
        self.told.append("append")

    def on_bytes(self, size: int) -> None:
        self.told.append(size)


# ---- what followers read


def bytes_of(found: FileSlice | bytes | None) -> bytes | None:
    return found.read() if isinstance(found, FileSlice) else found


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_followers_read_what_is_in_the_file_whether_or_not_it_is_committed(offset: int) -> None:
    scene = Scene()
    for _ in range(3):
        scene.append()

    in_file = bytes_of(scene.partition.read(offset, 1 << 20, Isolation.LOG_END, at_least_one=True))
    for committed in range(3):
        scene.fetched(2, 3)
        scene.fetched(3, committed)
        found = bytes_of(scene.partition.read_as_follower(offset, 1 << 20, at_least_one=True))
        assert (scene.high_watermark, found) == (committed, in_file)


def test_followers_read_nothing_of_a_log_that_has_failed_not_even_what_is_kept() -> None:
    scene = Scene()
    scene.append()
    scene.partition.log.log_dir.failed(OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaStorageError):
        scene.partition.read_as_follower(0, 1 << 20, at_least_one=True)
