"""The shell around a state machine of groups, with a list as its log and a clock that the test moves.

It keeps the coordinator's order: decide, append, replay, commit, answer. Records go through the bytes that a log would
hold. A test says when appends fail, when what was appended is committed, and when the machine is loaded anew.
"""

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from barnabas.broker.config import BrokerConfig
from barnabas.broker.groups.context import GroupContext
from barnabas.broker.groups.result import Result
from barnabas.broker.groups.timers import GroupTimers, Operation, TimerKey
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.group_record_serde import GroupKey, GroupValue, decode_record, encode_key, encode_value
from barnabas.replication.image import MetadataImage, empty_image

from ...storage.fakes import FakeClock, FakeReport

R = TypeVar("R")
CLUSTER_ID = "groups-under-test-0000"
BrokerTexts = Mapping[str, str]
TIMER_RETRY_MS = 500


class Machine(Protocol):
    def replay(self, key: Any, value: Any) -> None: ...
    def on_loaded(self) -> None: ...
    def on_unloaded(self) -> None: ...


M = TypeVar("M", bound=Machine)


class Appended:
    """A decision that waits for the commit of everything that came before."""

    def __init__(self, result: Result[Any], answer: Promise[Any], start: int) -> None:
        self.result = result
        self.answer = answer
        self.start = start
        """Where its records begin in the log."""

    def finish(self, error: KafkaError | None) -> None:
        if self.result.on_committed is not None:
            self.result.on_committed(error)
        if isinstance(self.result.response, Promise):
            return
        if error is not None:
            self.answer.fail(error)
        else:
            self.answer.resolve(self.result.response)


class Shell(Generic[M]):
    def __init__(self, build: Callable[[GroupContext], M], config: BrokerTexts | None = None, *, seed: int = 0) -> None:
        self._build = build
        self._random = Random(seed)
        self.clock = FakeClock()
        self.report = FakeReport()
        self.config = BrokerConfig.parse(config or {})
        self.image: MetadataImage = empty_image(CLUSTER_ID)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.append_error: KafkaError | None = None
        """Set: appends fail with it, and nothing is written."""
        self.commits_at_once = True
        """False: what is appended waits for `commit`."""
        self._appended: deque[Appended] = deque()
        self._load()

    def _load(self) -> None:
        self.timers = GroupTimers(self.clock, self._run_operation)
        self.context = GroupContext(
            timers=self.timers,
            now_ms=self.clock.now_ms,
            random=self._random,
            report=self.report,
            config=lambda: self.config,
            image=lambda: self.image,
        )
        self.machine = self._build(self.context)
        for key, value in self.records():
            self.machine.replay(key, value)
        self.machine.on_loaded()

    # ---- decisions

    def ask(self, decide: Callable[[M], Result[R]]) -> Promise[R]:
        """The answer to what `decide` says, as the one who asked gets it."""
        answer: Promise[R] = Promise()
        try:
            result = decide(self.machine)
        except KafkaError as error:
            answer.fail(error)
            return answer
        appended = Appended(result, answer, len(self.log))
        if result.records and self.append_error is not None:
            appended.finish(self.append_error)
        else:
            for key, value in result.records:
                self.log.append((encode_key(key), None if value is None else encode_value(value)))
            if result.is_replayed:
                for key, value in self.records(appended.start):
                    self.machine.replay(key, value)
            self._appended.append(appended)
            if self.commits_at_once:
                self.commit()
        return result.response if isinstance(result.response, Promise) else answer

    def _run_operation(self, key: TimerKey, operation: Operation) -> None:
        """A timer whose records could not be written comes again, unless deciding has changed the state already."""
        if (result := operation()) is None:
            return
        answer = self.ask(lambda _: result)
        assert answer.error is None or self.append_error is not None, f"{key}: {answer.error!r}"
        if result.is_replayed and answer.error is not None and not self.timers.is_scheduled(key):
            self.timers.schedule(key, TIMER_RETRY_MS, operation)

    @property
    def is_all_committed(self) -> bool:
        return not self._appended

    def commit(self) -> None:
        while self._appended:
            self._appended.popleft().finish(None)

    def lose(self, error: KafkaError) -> None:
        """What is not committed never will be: another log wins."""
        lost = list(self._appended)
        self._appended.clear()
        if lost:
            del self.log[lost[0].start :]
        for appended in lost:
            assert not (appended.result.records and appended.result.is_replayed), "a replayed record cannot be lost"
            appended.finish(error)

    # ---- time and restarts

    def advance(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)

    def unload(self) -> None:
        self.machine.on_unloaded()

    def restart(self) -> None:
        """Everything in the log is committed, those who wait are told to go elsewhere, and the log is read again."""
        self.commit()
        self.unload()
        self.timers.clear()
        self._load()

    def crash(self) -> None:
        """Nobody is told anything. What was appended but not committed survives."""
        self._appended.clear()
        self.timers.clear()
        self._load()

    def alter(self, **texts: str) -> None:
        """Sets broker keys, whose dots are written as underscores: `alter(group_max_size="2")`."""
        self.config = self.config.with_overrides({name.replace("_", "."): text for name, text in texts.items()})

    # ---- looking

    def records(self, start: int = 0) -> list[tuple[GroupKey, GroupValue | None]]:
        decoded = [decode_record(key, value) for key, value in self.log[start:]]
        return [record for record in decoded if record is not None]

    def timer_keys(self) -> list[TimerKey]:
        return sorted(self.timers.keys())


def code_of(answer: Promise[Any]) -> ErrorCode:
    """What the client is told; AssertionError if it still waits."""
    assert answer.done, "there is no answer yet"
    if answer.error is None:
        return ErrorCode(answer.value.error_code)
    assert isinstance(answer.error, KafkaError), repr(answer.error)
    return answer.error.code


def value_of(answer: Promise[R]) -> R:
    """The answer, which must be a good one."""
    assert code_of(answer) == ErrorCode.NONE, code_of(answer).name
    return answer.value
