"""Groups on a real log of a simulated disk: what is answered when, what is loaded, and what a crash cannot take."""

from random import Random
from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import Timers
from barnabas.broker.coordinator.replica import CoordinatorReplica
from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.broker.groups.context import ClientInfo, GroupContext, TimerKey
from barnabas.broker.groups.coordinator import group_coordinator_definition
from barnabas.broker.groups.record import GroupRecord
from barnabas.broker.groups.shard import GroupShard
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.protocol.stored.group_record_serde import encode_key, encode_value
from barnabas.protocol.stored.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import empty_image
from tests.broker.members import commit_request
from tests.broker.replicas.leaders import ALONE, Brokers
from tests.simulation.files import SimulatedFiles
from tests.storage.logs import NOW_MS, TOPIC_ID, Broker, verified

PLACE = TopicPartition("__consumer_offsets", 7)
CLIENT = ClientInfo("test", "/127.0.0.1", 9)
ORDERS = ("orders", 0)


class Kit:
    """The shard of one partition, as often as its broker is started."""

    def __init__(self, files: SimulatedFiles | None = None, *, queued: bool = False, **config: Any) -> None:
        self.broker = Broker(files, queued=queued)
        self.log_config = {"cleanup_policy": ("compact",), **config}
        self.config = BrokerConfig.parse({})
        self.start()

    def start(self) -> None:
        log = self.broker.log(PLACE, **self.log_config)
        self.partition = LeaderPartition(PLACE, TOPIC_ID, log, ALONE, Brokers())
        self.runtime = ShardRuntime(
            group_coordinator_definition(self.config, self._build),
            CoordinatorReplica(self.partition),
            clock=self.broker.clock,
            report=self.broker.report,
        )

    def _build(self, timers: Timers) -> GroupShard:
        return GroupShard(
            GroupContext(
                timers=timers,
                now_ms=self.broker.clock.now_ms,
                random=Random(1),
                report=self.broker.report,
                config=lambda: self.config,
                image=lambda: empty_image("a-cluster-of-one-000000"),
            )
        )

    def load(self) -> "Kit":
        while not self.runtime.is_loaded:
            self.runtime.load_some()
        return self

    def restart(self) -> None:
        self.broker.restart()
        self.start()
        self.load()

    def commit(self, offset: int, group_id: str = "group", metadata: str = "") -> Promise[Any]:
        request = commit_request(group_id, {ORDERS: offset}, metadata=metadata)
        return self.runtime.run(lambda shard: shard.offsets.commit(request, CLIENT))

    def fetch(self, group_id: str = "group", *, require_stable: bool = False) -> Promise[Any]:
        topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
        asked = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        return self.runtime.run(lambda shard: Decision((), shard.offsets.fetch(asked, require_stable=require_stable)))

    def offset(self, group_id: str = "group", *, require_stable: bool = False) -> int | ErrorCode:
        partition = self.fetch(group_id, require_stable=require_stable).value.topics[0].partitions[0]
        return ErrorCode(partition.error_code) if partition.error_code else int(partition.committed_offset)

    def append(self, *records: NewRecord, **options: Any) -> None:
        """Past the shard, as it was written by another broker before this one."""
        self.append_batch(build_batch(list(records), **options))

    def append_batch(self, batch: bytearray) -> None:
        data = memoryview(batch)
        self.partition.append_as_coordinator(data, now_ms=NOW_MS, guard=verified(self.partition.log, data))


def offset_record(offset: int, group_id: str = "group") -> NewRecord:
    key = OffsetCommitKey(group=group_id, topic="orders", partition=0)
    return NewRecord(encode_key(key), encode_value(offset_value(offset)), (), NOW_MS)


def offset_value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=NOW_MS)


# ---- answers


def test_a_commit_is_answered_when_it_is_on_the_disk_and_nobody_sees_it_before() -> None:
    kit = Kit(queued=True, flush_messages=1).load()
    committed, fetched = kit.commit(5), kit.fetch()
    assert not committed.done
    assert not fetched.done, "it would tell of an offset that a power cut can take"
    kit.broker.settle()
    assert committed.value.topics[0].partitions[0].error_code == 0
    assert fetched.value.topics[0].partitions[0].committed_offset == 5


def test_a_full_disk_refuses_the_commit_and_nothing_of_it_is_seen() -> None:
    files = SimulatedFiles(Random(1))
    kit = Kit(files).load()
    assert kit.commit(5).done
    files.capacity_bytes = files.used_bytes()
    refused = kit.commit(6)
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code == ErrorCode.NOT_COORDINATOR
    assert kit.offset() == 5
    files.capacity_bytes = 1 << 40
    kit.commit(7)
    assert kit.offset() == 7
    kit.restart()
    assert kit.offset() == 7


def test_records_beyond_the_limit_of_a_batch_are_written_in_several_and_at_once() -> None:
    kit = Kit(max_message_bytes=500).load()
    records = [
        GroupRecord(OffsetCommitKey(group="group", topic="orders", partition=index), offset_value(index))
        for index in range(100)
    ]
    assert kit.runtime.run(lambda shard: Decision(records, "done")).value == "done"
    assert kit.partition.log.log_end_offset == 100
    kit.restart()
    everything = OffsetFetchRequestGroup(group_id="group", topics=None)
    fetched = kit.runtime.run(lambda shard: Decision((), shard.offsets.fetch(everything, require_stable=False))).value
    assert sorted(p.committed_offset for p in fetched.topics[0].partitions) == list(range(100))


def test_a_record_that_no_segment_can_hold_is_refused() -> None:
    kit = Kit(internal_segment_bytes=500).load()
    refused = kit.commit(5, metadata="x" * 600)
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert kit.offset() == -1


# ---- timers


def test_a_timer_whose_records_cannot_be_written_tries_again() -> None:
    files = SimulatedFiles(Random(1))
    kit = Kit(files).load()
    kit.commit(1)
    records = [GroupRecord(OffsetCommitKey(group="group", topic="orders", partition=0), offset_value(2))]

    def schedule(shard: GroupShard) -> Decision[None]:
        kit.runtime.timers.schedule(TimerKey("test", "group"), 100, lambda: Decision(records, None))
        return Decision((), None)

    kit.runtime.run(schedule)
    files.capacity_bytes = files.used_bytes()
    kit.broker.clock.advance(100)
    assert kit.offset() == 1
    files.capacity_bytes = 1 << 40
    kit.broker.clock.advance(500)
    assert kit.offset() == 2


# ---- loading


class TickingClock:
    """A clock on which every look takes a millisecond."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._ticks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def monotonic_ms(self) -> int:
        self._ticks += 1
        return int(self._clock.monotonic_ms()) + self._ticks


def test_a_long_load_lets_others_run_in_between() -> None:
    kit = Kit()
    for number in range(10):
        kit.append(*(offset_record(number * 100 + each, f"group-{each}") for each in range(100)))
    kit.broker.clock = TickingClock(kit.broker.clock)  # type: ignore[assignment]
    kit.start()
    turns = 0
    while not kit.runtime.is_loaded:
        kit.runtime.load_some()
        turns += 1
    assert turns > 2
    assert [kit.offset(f"group-{each}") for each in (0, 99)] == [900, 999]


def test_records_of_a_kind_that_is_not_known_here_are_passed_over() -> None:
    kit = Kit()
    share_group = NewRecord((10).to_bytes(2) + b"anything", b"\0\0", (), NOW_MS)
    kit.append(share_group, offset_record(4))
    kit.load()
    assert kit.offset() == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", b"\0\0"),  # no type
        ((1).to_bytes(2) + b"\0\x05abc", b"\0\0"),  # the group's name is longer than the key
        (offset_record(1).key, b"\0\x63"),  # a version of the future
    ],
)
def test_a_log_that_cannot_be_read_has_no_coordinator_and_the_log_says_so(key: bytes, value: bytes) -> None:
    kit = Kit()
    kit.append(offset_record(3))
    kit.append(NewRecord(key, value, (), NOW_MS))
    kit.load()
    refused = kit.fetch()
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kit.broker.report.having("error __consumer_offsets-7 cannot be read")


@pytest.mark.parametrize(
    ("marker", "afterwards"),
    [
        (ControlType.COMMIT, 20),
        (ControlType.ABORT, 10),
        (None, 10),  # it is not decided yet
    ],
)
def test_offsets_of_a_transaction_count_when_it_is_committed(marker: ControlType | None, afterwards: int) -> None:
    kit = Kit()
    kit.append(offset_record(10))
    kit.append(offset_record(20), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    if marker is not None:
        kit.append_batch(
            build_end_transaction_marker(marker, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=NOW_MS)
        )
    kit.load()
    assert kit.offset() == afterwards
    assert kit.offset(require_stable=True) == (afterwards if marker is not None else ErrorCode.UNSTABLE_OFFSET_COMMIT)


def test_a_commit_outside_the_transaction_that_was_written_later_stays_when_the_transaction_is_committed() -> None:
    kit = Kit()
    kit.append(offset_record(20), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    kit.append(offset_record(15))
    kit.append_batch(
        build_end_transaction_marker(
            ControlType.COMMIT, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=NOW_MS
        )
    )
    kit.load()
    assert kit.offset() == 15, "compaction would leave this one"


# ---- the end


def test_whoever_asks_after_the_shard_has_moved_is_sent_elsewhere() -> None:
    kit = Kit().load()
    kit.commit(1)
    kit.runtime.unload()
    refused = kit.commit(2)
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code == ErrorCode.NOT_COORDINATOR
    assert kit.partition.log.log_end_offset == 1


@pytest.mark.parametrize("seed", range(60))
def test_no_acknowledged_commit_is_lost_however_the_broker_ends(seed: int) -> None:
    """Killed, or its power cut under the fsync policy, with commits under way."""
    random = Random(seed)
    is_power_cut = random.random() < 0.5
    kit = Kit(SimulatedFiles(random), queued=True, flush_messages=1 if is_power_cut else 1 << 40)
    kit.load()
    acknowledged: dict[str, int] = {}
    asked: dict[str, int] = {}
    for number in range(200):
        action = random.random()
        if action < 0.7:
            group_id = f"group-{random.randrange(5)}"
            asked[group_id] = number
            kit.commit(number, group_id).when_done(lambda _, known={group_id: number}: acknowledged.update(known))  # type: ignore[misc]
        elif action < 0.95:
            kit.broker.settle()
        else:
            if is_power_cut:
                kit.broker.cut_power()
            else:
                kit.broker.kill()
            kit.start()
            kit.load()
            for group_id, offset in asked.items():
                found = kit.offset(group_id)
                assert acknowledged.get(group_id, -1) <= found <= offset, f"seed={seed} {group_id}"
                acknowledged[group_id] = asked[group_id] = int(found)
