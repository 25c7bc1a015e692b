"""One partition in its roles: what may be read and acknowledged, and when."""

import pytest

from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.broker.replicas.leader import ACKS_ALL, ACKS_LEADER, LeaderPartition
from barnabas.broker.replicas.partition import Isolation
from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.log_config import LogConfig
from tests.broker.replicas.leaders import ALONE, Appended, Brokers
from tests.storage.logs import NOW_MS, ORDERS, TOPIC_ID, Broker, batch, offsets_of, verified

NEVER = 2**63 - 1


def leader_of(broker: Broker, flush_messages: int = 1) -> LeaderPartition:
    return LeaderPartition(ORDERS, TOPIC_ID, broker.log(flush_messages=flush_messages), ALONE, Brokers())


def append(partition: LeaderPartition, data: bytearray | None = None) -> AppendInfo:
    sent = memoryview(data if data is not None else batch())
    return partition.append(sent, now_ms=NOW_MS, guard=verified(partition.log, sent))


class Waiter:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_bytes(self, size: int) -> None:
        self.sizes.append(size)


class Outcomes:
    """What became of appends, in the order in which it became known."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def of(self, partition: LeaderPartition, info: AppendInfo, acks: int, name: str) -> None:
        def settled(error: Exception | None) -> None:
            self.names.append(name if error is None else type(error).__name__)

        partition.when_acknowledged(info, acks, Appended(settled), 30_000)


# ---- durable, committed, acknowledged


def test_under_the_fsync_policy_nothing_is_read_before_it_is_on_the_disk() -> None:
    broker = Broker(queued=True)
    partition = leader_of(broker)
    info = append(partition, batch(b"one", b"two"))
    assert partition.log.high_watermark == 0
    assert not partition.is_acknowledged(info, ACKS_ALL)
    assert not partition.is_acknowledged(info, ACKS_LEADER)
    broker.settle()
    assert partition.log.high_watermark == 2
    assert partition.is_acknowledged(info, ACKS_ALL)


def test_what_a_killed_process_left_in_the_page_cache_is_on_the_disk_before_it_is_read() -> None:
    broker = Broker(queued=True)
    append(leader_of(broker), batch(b"one", b"two"))
    broker.kill()
    recovered = leader_of(broker)
    assert recovered.log.high_watermark == recovered.log.recovery_point == 2
    broker.cut_power()
    assert leader_of(broker).log.high_watermark == 2, "a consumer may have read these records"


def test_a_flush_that_somebody_asks_for_does_not_wait_for_the_policy() -> None:
    broker = Broker(queued=True)
    partition = leader_of(broker, flush_messages=NEVER)
    assert partition.when_flushed().done, "there is nothing to flush"
    append(partition, batch(b"one", b"two"))
    flushed_to: list[int] = []
    partition.when_flushed().when_done(lambda _: flushed_to.append(partition.log.recovery_point))
    assert flushed_to == []
    broker.settle()
    assert flushed_to == [2]
    assert partition.when_flushed().done


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
@pytest.mark.parametrize(
    ("flush_messages", "at_once"),
    [
        (NEVER, [True, True, True, True]),  # the page cache is durable enough
        (3, [True, True, False, False]),  # the append that makes three waits for the flush, and so does the next
        (1, [False, False, False, False]),
    ],
)
def test_an_append_is_acknowledged_when_the_policy_asks_for_no_more(
    acks: int, flush_messages: int, at_once: list[bool]
) -> None:
    broker = Broker(queued=True)
    partition, outcomes = leader_of(broker, flush_messages), Outcomes()
    found = []
    for number in range(4):
        info = append(partition)
        found.append(partition.is_acknowledged(info, acks))
        if not found[-1]:
            outcomes.of(partition, info, acks, str(number))
    assert found == at_once
    assert outcomes.names == []
    broker.settle()
    assert outcomes.names == [str(number) for number in range(4) if not at_once[number]], "in order"


def test_those_who_wait_for_the_watermark_and_for_the_disk_are_woken_by_what_they_wait_for() -> None:
    broker = Broker(queued=True)
    partition, outcomes = leader_of(broker), Outcomes()
    for name, acks in (("all", ACKS_ALL), ("leader", ACKS_LEADER), ("all again", ACKS_ALL)):
        outcomes.of(partition, append(partition), acks, name)
    broker.clock.turn()
    outcomes.of(partition, append(partition), ACKS_ALL, "later")
    broker.queue.do()
    assert outcomes.names == ["all", "all again", "leader"], "the flush at work does not cover the last"
    broker.settle()
    assert outcomes.names == ["all", "all again", "leader", "later"]


def retried(sequence: int) -> bytearray:
    return batch(producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
def test_a_batch_that_is_sent_again_after_a_crash_has_what_it_waits_for_flushed(acks: int) -> None:
    broker = Broker(queued=True)
    partition = leader_of(broker, flush_messages=NEVER)
    for sequence in range(5):
        append(partition, retried(sequence))
    broker.config = LogConfig(flush_messages=3)
    broker.kill()
    partition = leader_of(broker, flush_messages=3)
    outcomes = Outcomes()
    info = append(partition, retried(4))
    assert info.duplicate
    assert not partition.is_acknowledged(info, acks)
    outcomes.of(partition, info, acks, "again")
    broker.settle()
    assert outcomes.names == ["again"]


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
def test_a_batch_that_is_durable_is_acknowledged_again_while_a_later_one_is_flushed(acks: int) -> None:
    broker = Broker(queued=True)
    partition = leader_of(broker, flush_messages=2)
    append(partition, retried(0))
    append(partition, retried(1))
    broker.settle()
    append(partition, retried(2))
    append(partition, retried(3))  # its flush is under way
    assert partition.is_acknowledged(append(partition, retried(1)), acks)


def test_a_batch_that_is_sent_again_brings_nothing_to_those_who_wait_for_bytes() -> None:
    broker = Broker(queued=True)
    partition, waiter = leader_of(broker), Waiter()
    append(partition, retried(0))
    broker.settle()
    partition.wait(waiter, Isolation.HIGH_WATERMARK)
    append(partition, retried(0))
    append(partition, data := retried(1))
    broker.settle()
    assert waiter.sizes == [len(data)]


def test_a_failed_flush_fails_everything_that_waits() -> None:
    broker = Broker(queued=True)
    partition, outcomes, waiter = leader_of(broker), Outcomes(), Waiter()
    partition.wait(waiter, Isolation.HIGH_WATERMARK)
    outcomes.of(partition, append(partition), ACKS_ALL, "all")
    outcomes.of(partition, append(partition), ACKS_LEADER, "leader")
    broker.disk.failing_syncs.add(partition.log.path)
    broker.settle()
    assert outcomes.names == [KafkaStorageError.__name__] * 2
    assert waiter.sizes == [0]


def test_what_waits_when_the_lead_is_lost_is_not_answered_by_a_later_flush() -> None:
    broker = Broker(queued=True)
    partition, outcomes = leader_of(broker), Outcomes()
    outcomes.of(partition, append(partition), ACKS_ALL, "all")
    partition.detach()
    broker.settle()
    assert outcomes.names == []
    partition.fail(NotLeaderOrFollower(""))
    assert outcomes.names == [NotLeaderOrFollower.__name__]
    assert partition.log.listener is None


def test_a_policy_that_is_relaxed_meanwhile_leaves_nobody_waiting() -> None:
    broker = Broker(queued=True)
    partition, outcomes = leader_of(broker), Outcomes()
    outcomes.of(partition, append(partition), ACKS_ALL, "all")
    partition.log.configure(type(partition.log.config)())
    broker.settle()
    assert (outcomes.names, partition.log.high_watermark) == (["all"], 1)


# ---- reading and waiting


def transactional(partition: LeaderPartition, sequence: int = 0) -> int:
    data = build_batch(
        [NewRecord(b"k", b"v", (), NOW_MS)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    append(partition, data)
    return len(data)


def end(partition: LeaderPartition, how: ControlType) -> int:
    marker = build_end_transaction_marker(how, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    partition.append_as_coordinator(memoryview(marker), now_ms=NOW_MS)
    return len(marker)


@pytest.mark.parametrize("how", [ControlType.COMMIT, ControlType.ABORT])
def test_each_isolation_reads_to_its_own_end(how: ControlType) -> None:
    broker = Broker(queued=True)
    partition = leader_of(broker)
    append(partition)
    transactional(partition)
    broker.settle()
    append(partition)
    ends = {isolation: partition.end_offset(isolation) for isolation in Isolation}
    assert ends == {Isolation.LOG_END: 3, Isolation.HIGH_WATERMARK: 2, Isolation.LAST_STABLE_OFFSET: 1}
    end(partition, how)
    assert partition.end_offset(Isolation.LAST_STABLE_OFFSET) == 1, "the marker is not committed"
    broker.settle()
    assert {partition.end_offset(isolation) for isolation in Isolation} == {4}
    for isolation in Isolation:
        found = partition.read(0, 1 << 20, isolation, at_least_one=True)
        assert found is not None
        assert found.size == partition.unread_bytes(0, isolation)


def test_a_waiting_fetch_counts_what_becomes_readable() -> None:
    broker = Broker(queued=True)
    partition, waiter = leader_of(broker), Waiter()
    partition.wait(waiter, Isolation.HIGH_WATERMARK)
    size = len(batch())
    append(partition)
    append(partition)
    broker.clock.turn()
    append(partition)  # the flush at work does not cover it
    assert waiter.sizes == []
    broker.queue.do()
    assert waiter.sizes == [2 * size]
    broker.settle()
    assert waiter.sizes == [2 * size, size]
    partition.stop_waiting(waiter)
    append(partition)
    broker.settle()
    assert waiter.sizes == [2 * size, size]


def test_a_fetch_of_committed_transactions_is_woken_by_the_last_stable_offset() -> None:
    partition = leader_of(Broker(), NEVER)
    stable, any_record = Waiter(), Waiter()
    partition.wait(stable, Isolation.LAST_STABLE_OFFSET)
    partition.wait(any_record, Isolation.HIGH_WATERMARK)
    sizes = [len(batch())]
    append(partition)
    assert stable.sizes == any_record.sizes == sizes
    held = transactional(partition)
    append(partition)
    assert (stable.sizes, any_record.sizes) == (sizes, [*sizes, held, len(batch())])
    held += len(batch()) + end(partition, ControlType.ABORT)
    assert stable.sizes == [*sizes, held]


# ---- following


def leaders_batch(offset: int, epoch: int = 0) -> memoryview:
    records = [NewRecord(b"k", b"v", (), NOW_MS)]
    return memoryview(build_batch(records, base_offset=offset, partition_leader_epoch=epoch))


def follower_of(broker: Broker, flush_messages: int = NEVER) -> FollowerPartition:
    return FollowerPartition(ORDERS, TOPIC_ID, broker.log(flush_messages=flush_messages), leader_epoch=0, leader_id=2)


def test_a_follower_takes_the_leaders_offsets_as_far_as_it_has_come() -> None:
    follower = follower_of(Broker())
    for offset in range(5):
        follower.append(leaders_batch(offset), NOW_MS)
    assert follower.log.high_watermark == 0
    follower.follow(high_watermark=3, log_start_offset=0)
    assert follower.log.high_watermark == 3
    follower.follow(high_watermark=9, log_start_offset=2)
    assert (follower.log.high_watermark, follower.log.log_start_offset) == (5, 2)
    follower.truncate_to(4)
    assert (follower.fetch_offset, follower.log.high_watermark, offsets_of(follower.log)) == (4, 4, [2, 3])


def test_a_follower_whose_leader_starts_later_begins_there() -> None:
    follower = follower_of(Broker())
    follower.append(leaders_batch(0), NOW_MS)
    follower.follow(high_watermark=70, log_start_offset=50)
    assert (follower.fetch_offset, follower.log.log_start_offset) == (50, 50)


def test_under_the_fsync_policy_a_follower_asks_for_more_only_when_it_has_what_it_got_for_good() -> None:
    broker = Broker(queued=True)
    follower = follower_of(broker, flush_messages=1)
    follower.append(leaders_batch(0), NOW_MS)
    assert follower.fetch_offset == 0
    broker.settle()
    assert follower.fetch_offset == 1


def test_a_follower_refuses_what_its_leader_cannot_have_sent() -> None:
    follower = follower_of(Broker())
    follower.append(leaders_batch(0), NOW_MS)
    with pytest.raises(KafkaError):
        follower.append(leaders_batch(0), NOW_MS)
