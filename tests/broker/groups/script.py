"""Scripts of what happens to a group, with what has become of it after each step.

A script is a text of steps. Each is a line of words, then `----`, then the state after it; an empty line ends the step,
and lines with # are for the reader. The words:

    topic NAME PARTITIONS          a topic is created, or gets more partitions
    set KEY VALUE                  a key of the broker is set
    consumer NAME TOPICS [static]  a member of the consumer protocol joins; a static one is known by its name
    classic NAME TOPICS [static]   a member of the classic protocol takes its first step
    beat NAMES                     each member does what it is time for: it sends a heartbeat, joins, assigns, syncs
    wait DURATION [NAMES]          time passes; these members send heartbeats all the while, once in three seconds
    leave NAME, pause NAME         a member leaves for good, or for a while (static members of the consumer protocol)
    forget NAME                    the client of a static member starts again, and knows nothing
    hold NAME                      a member of the consumer protocol sends heartbeats, but gives nothing up
    log full, log ok, log slow     appends fail; all is well; appends are not committed
    restart, fail over             the coordinator loads its log again; without what was not committed

and those of `offset_steps.py`, about committed offsets and transactions.

The state names what the group is and, for each member, what its client knows: the last error if there was one, its
epoch or generation, and the partitions that it reads. What was committed follows.
"""

from collections.abc import Callable

from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from tests.broker.groups.classic.client import ClassicConsumer
from tests.broker.groups.consumer.client import (
    GROUP,
    Partitions,
    assignment_of,
    heartbeat_request,
    send,
    topic_id,
    with_topic,
)
from tests.broker.groups.harness import GroupHarness, code_of
from tests.broker.groups.offset_steps import NOBODY, OffsetSteps, Who

BEAT_MS = 3_000
_GIVE_UP = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class ConsumerMember:
    """A client of the consumer protocol, which gives partitions up and takes them as it is asked to."""

    def __init__(self, harness: GroupHarness, name: str, topics: list[str], *, is_static: bool) -> None:
        self._harness = harness
        self._topics = topics
        self._name = name
        self._instance_id = name if is_static else None
        self._incarnation = 0
        self.is_holding = False
        self.forget()

    def forget(self) -> None:
        self._incarnation += 1
        self._member_id = f"{self._name}-{self._incarnation}"
        self._epoch = 0
        self._owned: Partitions = {}
        self._error = ""
        self._is_in = False

    def beat(self) -> None:
        is_joining = self._epoch == 0
        request = heartbeat_request(
            self._member_id,
            self._epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            names=self._topics if is_joining else None,
            owned=None if self.is_holding else self._owned,
        )
        answer = send(self._harness, request)
        code = code_of(answer)
        self._error = "" if code == ErrorCode.NONE else code.name
        if code == ErrorCode.NONE:
            self._is_in = True
            self._epoch = answer.value.member_epoch
            assigned = assignment_of(answer.value)
            self._owned = self._owned if assigned is None or self.is_holding else assigned
        elif code in _GIVE_UP:
            self._epoch, self._owned, self._is_in, self.is_holding = 0, {}, False, False

    def leave(self, epoch: int = -1) -> None:
        send(self._harness, heartbeat_request(self._member_id, epoch, instance_id=self._instance_id))
        self._epoch, self._owned, self._is_in = 0, {}, False

    def pause(self) -> None:
        self.leave(-2)

    def who(self) -> Who:
        return Who(self._member_id, self._epoch, self._instance_id)

    def __str__(self) -> str:
        owned = {
            name: numbers for name in self._topics for uuid, numbers in self._owned.items() if uuid == topic_id(name)
        }
        return _line(self._error, f"epoch {self._epoch}" if self._is_in else "out", owned)


class ClassicMember:
    def __init__(self, harness: GroupHarness, name: str, topics: list[str], *, is_static: bool) -> None:
        self._client = ClassicConsumer(harness, *topics, instance_id=name if is_static else None)
        self.beat = self._client.beat
        self.leave = self._client.leave
        self.forget = self._client.start_over

    def pause(self) -> None:
        raise AssertionError("members of the classic protocol do not leave for a while")

    def who(self) -> Who:
        return Who(self._client.member_id, self._client.generation_id, self._client.instance_id)

    def __str__(self) -> str:
        client = self._client
        state = f"generation {client.generation_id}" if client.generation_id >= 0 else "out"
        if client.joining is not None:
            state = "joining"
        elif client.syncing is not None:
            state += ", syncing"
        return _line("", state, client.owned)


def _line(error: str, state: str, owned: dict[str, frozenset[int]]) -> str:
    topics = [f"{name} {' '.join(map(str, sorted(numbers)))}" for name, numbers in sorted(owned.items()) if numbers]
    return ", ".join([*([error] if error else []), state, *(topics or ["nothing"])])


class Script:
    def __init__(self) -> None:
        self._harness = GroupHarness({"group.consumer.assignment.interval.ms": "0"})
        self._members: dict[str, ConsumerMember | ClassicMember] = {}
        self._offsets = OffsetSteps(self._harness, self._who)

    def run(self, step: str) -> str:
        """Takes a step and returns the state after it."""
        word, *rest = step.split()
        steps: dict[str, Callable[..., None]] = {
            "topic": self._topic, "set": self._set, "consumer": self._consumer, "classic": self._classic,
            "beat": self._beat, "wait": self._wait, "leave": lambda name: self._members[name].leave(),
            "pause": lambda name: self._members[name].pause(), "forget": lambda name: self._members[name].forget(),
            "hold": self._hold, "log": self._log, "restart": self._harness.restart,
            "fail": lambda _over: self._harness.fail_over(), **self._offsets.steps,
        }  # fmt: skip
        self._offsets.error = ""
        steps[word](*rest)
        return self._state()

    # ---- steps

    def _topic(self, name: str, partitions: str) -> None:
        self._harness.image = with_topic(self._harness.image, name, int(partitions))

    def _set(self, key: str, value: str) -> None:
        self._harness.config = self._harness.config.with_overrides({key: value})

    def _consumer(self, name: str, *rest: str) -> None:
        topics = [word for word in rest if word != "static"]
        self._members[name] = ConsumerMember(self._harness, name, topics, is_static="static" in rest)
        self._members[name].beat()

    def _classic(self, name: str, *rest: str) -> None:
        topics = [word for word in rest if word != "static"]
        self._members[name] = ClassicMember(self._harness, name, topics, is_static="static" in rest)
        self._members[name].beat()

    def _beat(self, *names: str) -> None:
        for name in names:
            self._members[name].beat()

    def _wait(self, duration: str, *names: str) -> None:
        left_ms = int(duration.removesuffix("s")) * 1_000
        while left_ms > 0:
            self._harness.advance(min(BEAT_MS, left_ms))
            left_ms -= BEAT_MS
            self._beat(*names)

    def _hold(self, name: str) -> None:
        member = self._members[name]
        assert isinstance(member, ConsumerMember), "a classic member gives everything up when it joins"
        member.is_holding = True

    def _who(self, name: str) -> Who:
        """Returns who commits: `x` as it is, `x@2` as it was in that epoch, or nobody in particular."""
        name, _, epoch = name.partition("@")
        who = self._members[name].who() if name in self._members else NOBODY
        return who._replace(epoch=int(epoch)) if epoch else who

    def _log(self, how: str) -> None:
        self._harness.append_error = KafkaStorageError("no space") if how == "full" else None
        self._harness.commits_at_once = how != "slow"

    # ---- the state

    def _state(self) -> str:
        group = self._harness.context.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            head = f"consumer group, {group.state_name}, epoch {group.epoch}, target of epoch {group.assignment_epoch}"
        elif isinstance(group, ClassicGroup):
            head = f"classic group, {group.state_name}, generation {group.generation_id}"
        else:
            head = "no group"
        members = [f"  {name}: {member}" for name, member in self._members.items()]
        return "\n".join([head, *members, *self._offsets.state()])


def run_script(text: str) -> str:
    """Returns the script with the states that its steps lead to now."""
    script = Script()
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        comments = [line for line in lines if line.startswith("#")]
        steps = [line for line in lines[: lines.index("----") if "----" in lines else None] if line not in comments]
        states = [script.run(step) for step in steps]
        blocks.append("\n".join([*comments, *steps, *(["----", states[-1]] if states else [])]))
    return "\n\n".join(blocks) + "\n"
