"""The coordinator of one broker: which partition decides, what is loaded when, and what follows a change of leaders."""

from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.protocol.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    NotLeaderOrFollower,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import (
    ImageChanges,
    MetadataImage,
    PartitionImage,
    TopicChange,
    TopicImage,
    empty_image,
)
from tests.broker.coordinator.counters import TOPIC, Counters, definition
from tests.broker.coordinator.memory_partition import MemoryPartition
from tests.fakes import FakeClock, FakeReport

NODE, OTHER = 1, 2
TOPIC_ID = b"counters".ljust(16, b"\0")


class TickingClock(FakeClock):
    """A clock on which every look takes a millisecond."""

    ticks = 0

    def monotonic_ms(self) -> int:
        self.ticks += 1
        return super().monotonic_ms() + self.ticks


class Kit:
    def __init__(self, *leaders: int, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.image = empty_image("a-cluster-of-two-000000")
        self.partitions = [MemoryPartition(TopicPartition(TOPIC, index)) for index in range(len(leaders))]
        self.opened: list[int] = []
        self.runtime: CoordinatorRuntime[Counters] = CoordinatorRuntime(
            definition(), NODE, open_partition=self._open, clock=self.clock, report=FakeReport(), image=self._image
        )
        if leaders:
            self.lead(*leaders)

    def _image(self) -> MetadataImage:
        return self.image

    def _open(self, index: int) -> MemoryPartition:
        topic = self.image.topic(TOPIC)
        assert topic is not None
        if topic.partitions[index].leader != NODE:
            raise NotLeaderOrFollower("it is led elsewhere")
        self.opened.append(index)
        return self.partitions[index]

    def lead(self, *leaders: int) -> None:
        """A committed image says who leads which partition."""
        before = self.image.topic(TOPIC)
        partitions = [
            PartitionImage(leader=leader, leader_epoch=0, partition_epoch=0, replicas=(1, 2), isr=(1, 2))
            for leader in leaders
        ]
        after = TopicImage(TOPIC, TOPIC_ID, tuple(partitions))
        self.image = self.image._replace(topics=self.image.topics.updated({TOPIC: after}))
        if before is None:
            self.runtime.start()
        else:
            self.runtime.apply(ImageChanges(topics=(TopicChange(before, after),)))

    def get(self, key: str) -> Promise[int]:
        return self.runtime.run(key, lambda counters: counters.get(key))

    def set(self, key: str, value: int) -> Promise[int]:
        return self.runtime.run(key, lambda counters: counters.set(key, value))


def code_of(answer: Promise[Any]) -> ErrorCode:
    assert isinstance(answer.error, KafkaError)
    return answer.error.code


def test_a_key_belongs_to_the_partition_that_its_hash_says() -> None:
    kit = Kit(NODE, NODE, NODE)
    kit.set("a", 1)  # 97 is 1 modulo 3
    kit.set("b", 2)
    assert [partition.records() for partition in kit.partitions] == [[], [(b"a", b"1")], [(b"b", b"2")]]
    long_key = "a" * 300  # which is not remembered
    assert kit.runtime.partition_of(long_key) == kit.runtime.partition_of(long_key)


def test_without_a_topic_there_is_no_coordinator() -> None:
    kit = Kit()
    assert code_of(kit.get("a")) == ErrorCode.NOT_COORDINATOR
    with pytest.raises(NotCoordinator):
        kit.runtime.partition_of("a")
    assert kit.runtime.run_on_each(lambda counters: counters.get("a")) == []


def test_a_key_of_another_leader_is_refused() -> None:
    kit = Kit(NODE, OTHER)
    assert code_of(kit.get("a")) == ErrorCode.NOT_COORDINATOR
    assert kit.get("b").value == 0


def test_what_is_led_is_loaded_in_the_background_and_at_once_when_it_is_asked_for() -> None:
    kit = Kit(NODE, NODE, NODE)
    assert kit.opened == []
    assert kit.get("a").value == 0
    assert kit.opened == [1]
    kit.clock.turn()
    assert kit.opened == [1, 0, 2]


def test_a_long_load_is_refused_meanwhile_and_goes_on_once_in_each_turn() -> None:
    clock = TickingClock()
    kit = Kit(NODE, clock=clock)
    kit.partitions[0].write(*((b"a", b"%d" % number) for number in range(2_000)))
    assert code_of(kit.get("a")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(CoordinatorLoadInProgress):
        kit.runtime.run_on_each(lambda counters: counters.get("a"))
    turns = 0
    while clock._soon:
        assert len(clock._soon) == 1, "one load at a time"
        clock._soon.popleft()()
        turns += 1
    assert turns > 3
    assert kit.get("a").value == 1_999


def test_a_partition_that_moves_is_dropped_and_loaded_again_when_it_comes_back() -> None:
    kit = Kit(NODE, NODE)
    kit.set("a", 1)
    kit.partitions[1].commits_at_once = False
    waiting = kit.set("a", 2)
    kit.lead(NODE, OTHER)
    assert code_of(waiting) == ErrorCode.NOT_COORDINATOR
    assert code_of(kit.get("a")) == ErrorCode.NOT_COORDINATOR
    kit.partitions[1].truncate_to_high_watermark()
    kit.lead(NODE, NODE)
    assert kit.get("a").value == 1
    assert code_of(waiting) == ErrorCode.NOT_COORDINATOR


def test_a_topic_that_was_deleted_takes_its_state_along_even_if_one_of_the_same_name_is_there_already() -> None:
    kit = Kit(NODE)
    kit.set("a", 1)
    topic = kit.image.topic(TOPIC)
    kit.partitions = [MemoryPartition(TopicPartition(TOPIC, 0))]
    kit.runtime.apply(ImageChanges(topics=(TopicChange(topic, None),)))
    assert kit.get("a").value == 0


def test_some_decisions_are_for_all_partitions_and_some_for_those_that_are_loaded() -> None:
    kit = Kit(NODE, OTHER, NODE)
    kit.set("c", 3)  # in partition 0
    kit.runtime.run_on_loaded(lambda _: Decision([("d", 4)], None))
    assert [partition.log_end_offset for partition in kit.partitions] == [2, 0, 0]
    answers = kit.runtime.run_on_each(lambda counters: counters.get("c"))
    assert [answer.value for answer in answers] == [3, 0]


def test_when_the_broker_stops_nobody_is_left_waiting_and_nothing_is_loaded_any_more() -> None:
    kit = Kit(NODE, NODE)
    kit.partitions[1].commits_at_once = False
    waiting = kit.set("a", 1)
    kit.runtime.stop()
    assert code_of(waiting) == ErrorCode.NOT_COORDINATOR
    kit.clock.turn()
    assert kit.opened == [1]


def test_a_load_that_fails_for_a_reason_that_may_pass_is_tried_again() -> None:
    kit = Kit(NODE)
    kit.set("a", 1)
    again = Kit(NODE)
    again.partitions[0] = kit.partitions[0]
    again.partitions[0].read_error = KafkaStorageError("too many open files")
    assert code_of(again.get("a")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again.partitions[0].read_error = None
    again.clock.advance(1_000)
    assert again.opened == [0, 0], "nobody has to ask"
    assert again.get("a").value == 1


def test_half_of_what_is_stored_is_never_taken_for_all_of_it() -> None:
    """A load that ends with a bug of ours says so, and nobody decides on what it has brought."""
    kit = Kit(NODE, NODE)
    kit.set("a", 1)
    kit.set("b", 2)
    again = Kit(NODE, NODE)
    again.partitions[:] = kit.partitions
    again.partitions[1].read_error = AssertionError("a bug")
    with pytest.raises(AssertionError):
        again.get("a")
    assert code_of(again.get("a")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert again.get("b").value == 2
