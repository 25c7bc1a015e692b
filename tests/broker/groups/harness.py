"""The coordinator's own runtime around the groups of one partition, with a log in memory and a clock to be moved."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar

from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import Timers
from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.broker.coordinator.timers import CoordinatorTimers
from barnabas.broker.groups.context import GroupContext, TimerKey
from barnabas.broker.groups.coordinator import group_coordinator_definition
from barnabas.broker.groups.shard import GroupShard
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.stored.group_record_serde import GroupKey, GroupValue, decode_record
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import MetadataImage, empty_image
from tests.broker.coordinator.memory_partition import MemoryPartition, Stored
from tests.fakes import FakeClock, FakeReport

R = TypeVar("R")
CLUSTER_ID = "groups-under-test-0000"
PARTITION = TopicPartition("__consumer_offsets", 0)
PATIENT = {"offsets.commit.timeout.ms": "2147483647"}
"""Most tests hold a commit back for as long as they like."""


class GroupHarness:
    def __init__(self, config: Mapping[str, str] | None = None, *, seed: int = 0) -> None:
        self._random = Random(seed)
        self.clock = FakeClock()
        self.report = FakeReport()
        self.config = BrokerConfig.parse({**PATIENT, **(config or {})})
        self._image: MetadataImage = empty_image(CLUSTER_ID)
        self.partition = MemoryPartition(PARTITION)
        self._load()

    def _load(self) -> None:
        self.runtime: ShardRuntime[GroupShard] = ShardRuntime(
            group_coordinator_definition(self.config, self._build),
            self.partition,
            clock=self.clock,
            report=self.report,
        )
        while not self.runtime.is_loaded:
            self.runtime.load_some()

    def _build(self, timers: Timers) -> GroupShard:
        self.context = GroupContext(
            timers=timers,
            now_ms=self.clock.now_ms,
            random=self._random,
            report=self.report,
            config=lambda: self.config,
            image=lambda: self.image,
        )
        return GroupShard(self.context)

    @property
    def image(self) -> MetadataImage:
        return self._image

    @image.setter
    def image(self, image: MetadataImage) -> None:
        has_new = any(name not in self._image.topics for name in image.topics)
        self._image = image
        if has_new:
            self.ask(lambda shard: shard.on_topics_created())

    # ---- decisions

    @property
    def machine(self) -> GroupShard:
        return self.runtime.machine

    def ask(self, decide: Callable[[GroupShard], Decision[R]]) -> Promise[R]:
        """Returns the answer to what `decide` says, as whoever asked gets it."""
        return self.runtime.run(decide)

    @property
    def append_error(self) -> KafkaError | None:
        return self.partition.append_error

    @append_error.setter
    def append_error(self, error: KafkaError | None) -> None:
        self.partition.append_error = error

    @property
    def commits_at_once(self) -> bool:
        return self.partition.commits_at_once

    @commits_at_once.setter
    def commits_at_once(self, value: bool) -> None:
        self.partition.commits_at_once = value

    @property
    def is_all_committed(self) -> bool:
        return self.partition.high_watermark == self.partition.log_end_offset

    def commit(self) -> None:
        self.partition.commit()

    # ---- time and restarts

    def advance(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)

    def unload(self) -> None:
        self.runtime.unload()

    def restart(self) -> None:
        """Everything in the log is committed, those who wait are refused, and the log is read again."""
        self.commit()
        self.unload()
        self._load()

    def crash(self) -> None:
        """Nobody hears anything. What was appended survives, and is committed by the next leader."""
        self.partition.forget_waiters()
        self.runtime.timers.clear()
        self.partition.commit()
        self._load()

    def fail_over(self) -> None:
        """Another broker leads, without what is not committed, and then this one leads again."""
        self.unload()
        self.partition.truncate_to_high_watermark()
        self._load()

    def alter(self, **texts: str) -> None:
        """Sets broker keys, whose dots are written as underscores: `alter(group_max_size="2")`."""
        self.config = self.config.with_overrides({name.replace("_", "."): text for name, text in texts.items()})

    # ---- looking

    @property
    def log(self) -> list[Stored]:
        """Keys and values as they are stored; a copy."""
        return self.partition.records()

    def records(self, start: int = 0) -> list[tuple[GroupKey, GroupValue | None]]:
        decoded = [decode_record(key, value) for key, value in self.log[start:]]
        return [record for record in decoded if record is not None]

    @property
    def timers(self) -> CoordinatorTimers:
        return self.runtime.timers

    def timer_keys(self) -> list[TimerKey]:
        keys = self.timers.keys()
        return sorted(key for key in keys if isinstance(key, TimerKey))


def code_of(answer: Promise[Any]) -> ErrorCode:
    """Returns the code of the answer; AssertionError if there is none so far."""
    assert answer.done, "there is no answer yet"
    if answer.error is None:
        return ErrorCode(answer.value.error_code)
    assert isinstance(answer.error, KafkaError), repr(answer.error)
    return answer.error.code


def value_of(answer: Promise[R]) -> R:
    """Returns the answer, which must be a good one."""
    assert code_of(answer) == ErrorCode.NONE, code_of(answer).name
    return answer.value
