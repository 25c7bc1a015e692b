"""A sequence of requests that both brokers get, and the comparison of what they say to each.

`ask` sends one request to both and returns what Kafka answered, in symbols. A request that may have to wait for others
(a JoinGroup) is given to `send`: if no answer comes for a while it stays pending, on both sides or it is a difference.
"""

import select
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from compat_tests.differential.allowed import allowance
from compat_tests.differential.compare import ENDING, compared
from compat_tests.differential.conditions import Seen, is_mended_by_kafka, leaves, produces_twice
from compat_tests.differential.report import Found, Report, shown
from compat_tests.differential.schemas import apis
from compat_tests.differential.sides import SILENT, Answer, Barrier, Request, Side

QUIET_SECONDS = 0.06  # after which two brokers that said nothing are taken to be waiting
PARTITIONS_OF_GROUPS = 2
LATE_SECONDS = 4  # after which one that said nothing is taken to be waiting though the other answered
PATIENCE_SECONDS = 5

LONG_WAIT_MS = 600  # a fetch with this MaxWaitMs is also asked whether it waited
AT_ONCE_SECONDS = 0.3
ANSWERED = "Answered"

CHANGE_METADATA = ("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs")

NOT_NAMES_OF_ITS_OWN = ("Configs", "Synonyms", "SupportedFeatures", "FinalizedFeatures")
"""The lists of names that Kafka gave."""


class Arena(NamedTuple):
    """What all stories share: two brokers, what both serve, and where everything is counted."""

    kafka_port: int
    barnabas_port: int
    versions: dict[str, list[int]]
    refused: dict[str, list[int]]  # versions that both advertise and neither serves
    now_ms: int
    barrier: Barrier
    report: Report
    alter: Callable[[Request, Answer], None] | None = None


class Ended(Exception):
    """The end of a story whose brokers may have different states from here on."""


class Pending:
    def __init__(self, step: int, request: Request, on: str) -> None:
        self.step = step
        self.request = request
        self.on = on
        self.sent = time.monotonic()
        self.answers: dict[str, Answer] = {}

    def answer(self, side: Side, answer: Answer) -> None:
        """Returns the answer. Its duration is part of it where the request says how long it may take."""
        if self.request.body.get("MaxWaitMs") == LONG_WAIT_MS:
            is_at_once = time.monotonic() - self.sent < AT_ONCE_SECONDS
            answer = {**answer, ANSWERED: "at once" if is_at_once else "after a wait"}
        self.answers[side.name] = answer


class Story:
    """Subclasses say in `tell` what happens."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.arena = arena
        self.seed = seed
        self.random = Random(f"{type(self).__name__} {seed}")
        self.prefix = f"{type(self).__name__.lower()}-{seed}"
        self.sides = (Side("kafka", arena.kafka_port), Side("barnabas", arena.barnabas_port, arena.alter))
        self.pending: dict[str, Pending] = {}
        self.groups_with_offsets: set[str] = set()
        self.step = 0
        self.log: list[str] = []

    def tell(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.tell()
        except Ended:
            pass
        finally:
            for side in self.sides:
                side.close()

    # ---- requests

    def version(self, name: str, at_least: int = 0, at_most: int = 2**15) -> int:
        """Returns a version that both serve; the latest more often."""
        versions = [version for version in self.arena.versions[name] if at_least <= version <= at_most]
        return versions[-1] if self.random.random() < 0.3 else self.random.choice(versions)

    def ask(
        self, name: str, body: dict[str, Any], version: int | None = None, on: str = "main", **frame: Any
    ) -> Answer:
        """Asks both, compares, and returns what Kafka answered."""
        pending = self._send(name, body, version, on, **frame)
        self._receive(PATIENCE_SECONDS, lambda: len(pending.answers) == len(self.sides))
        if not pending.answers:
            self._give_up(pending)
        answer = self._compare_finished()[pending.step]
        if name in CHANGE_METADATA and ENDING not in answer:
            for side in self.sides:
                self.arena.barrier.wait(side)
        return answer

    def send(self, name: str, body: dict[str, Any], version: int | None = None, on: str = "main") -> Answer | None:
        """Asks like `ask` what may be answered later: None if both wait. What others waited for comes to
        `on_answer`."""
        pending = self._send(name, body, version, on)
        return self.settle().get(pending.step)

    def settle(self) -> dict[int, Answer]:
        self._receive(QUIET_SECONDS, lambda: False)
        return self._compare_finished()

    def on_answer(self, request: Request, answer: Answer, on: str) -> None:
        """Lets subclasses remember an answer."""

    # ---- both sides

    def _send(self, name: str, body: dict[str, Any], version: int | None, on: str, **frame: Any) -> Pending:
        assert on not in self.pending, "one request at a time on a connection"
        request = Request(apis()[name], self.version(name) if version is None else version, body, **frame)
        self.step += 1
        self.log.append(f"{self.step:3} {on}: {name} v{request.version} {shown(body)} {frame or ''}")
        self.pending[on] = Pending(self.step, request, on)
        for side in self.sides:
            side.send(request, on)
        return self.pending[on]

    def _receive(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        """Receives until nothing is awaited, or for so long after the last answer; longer while one side is ahead."""
        last = time.monotonic()
        while awaited := dict(self._awaited()):
            is_ahead = any(len(pending.answers) == 1 for pending in self.pending.values())
            if is_enough() and not is_ahead:
                return
            wait = last + max(seconds, LATE_SECONDS if is_ahead else 0) - time.monotonic()
            readable, _, _ = select.select(list(awaited), [], [], max(wait, 0))
            if not readable:
                return
            for connection in readable:
                side, pending = awaited[connection]
                if (answer := side.receive(pending.request, pending.on)) is not None:
                    pending.answer(side, answer)
            last = time.monotonic()

    def _awaited(self) -> Iterator[tuple[Any, tuple[Side, Pending]]]:
        for pending in self.pending.values():
            for side in self.sides:
                if side.name not in pending.answers:
                    yield side.connection(pending.on).socket, (side, pending)

    def _give_up(self, pending: Pending) -> None:
        for side in self.sides:
            pending.answers[side.name] = SILENT
            side.drop(pending.on)

    # ---- the comparison

    def _compare_finished(self) -> dict[int, Answer]:
        """Compares every request that has an answer, in the order in which they were sent."""
        finished = sorted((pending for pending in self.pending.values() if pending.answers), key=lambda p: p.step)
        for pending in finished:
            del self.pending[pending.on]
            for side in self.sides:  # members' own ids before others mention them
                side.comparable(pending.answers.setdefault(side.name, SILENT).get("MemberId"), "MemberId")
        return {pending.step: self._compare(pending) for pending in finished}

    def _compare(self, pending: Pending) -> Answer:
        request = pending.request
        kafka: Answer
        barnabas: Answer
        kafka, barnabas = (side.comparable(self._own(pending.answers[side.name])) for side in self.sides)
        self.arena.report.count(request, kafka)
        self.log.append(f"{pending.step:3} <- {shown(kafka)}")
        if kafka.get(ENDING) != barnabas.get(ENDING):  # the next request is to find both alike
            for side in self.sides:
                if pending.on in side.connections:
                    side.drop(pending.on)
        if request.api.name == "OffsetCommit" and ("ErrorCode", 0) in leaves(kafka):
            self.groups_with_offsets.add(str(request.body["GroupId"]))
        is_over = False
        for difference in compared(kafka, barnabas):
            story = self._has_equal_claims(), frozenset(self.groups_with_offsets)
            entry = allowance(Seen(request, difference, kafka, barnabas, *story))
            if entry is not None:
                self.arena.report.allowed[entry] += 1
            else:
                self.log.append(f"!!! {difference.where}: {shown(difference.kafka)} != {shown(difference.barnabas)}")
                found = Found(type(self).__name__, self.seed, pending.step, request, difference, tuple(self.log))
                self.arena.report.found.append(found)
            is_over |= entry is None or entry.ends
        if is_over or produces_twice(request) or is_mended_by_kafka(request):
            raise Ended
        self.on_answer(request, kafka, pending.on)
        return kafka

    def _has_equal_claims(self) -> bool:
        symbols = self.sides[0].symbols
        named = {value for value in symbols.sent if isinstance(value, str) and value.startswith("consumer-")}
        return len(named) > PARTITIONS_OF_GROUPS or any(kind == "member" for kind, _ in symbols.names)

    def _own(self, value: Any, field: str = "") -> Any:
        """Returns an answer about everything without what other stories left behind."""
        if isinstance(value, dict):
            return {name: self._own(inner, name) for name, inner in value.items()}
        if not isinstance(value, list):
            return value
        if field in NOT_NAMES_OF_ITS_OWN:
            return value
        return [self._own(element, field) for element in value if self._is_own(element)]

    def _is_own(self, element: Any) -> bool:
        if not isinstance(element, dict):
            return True
        names = [element[key] for key in ("Name", "GroupId", "ResourceName") if isinstance(element.get(key), str)]
        return all(name.startswith(self.prefix) or name in self.sides[0].symbols.sent for name in names)
