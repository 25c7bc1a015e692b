"""What holds in a group whose members use either protocol, and which is one kind of group or the other meanwhile.

The log fails at times, and the broker restarts from it. A failure names the seed of its history.
"""

from collections import Counter
from random import Random

import pytest

from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from tests.broker.groups.classic.client import ClassicConsumer
from tests.broker.groups.consumer.client import (
    GROUP,
    Partitions,
    assignment_of,
    consumer_harness,
    heartbeat_request,
    send,
    with_topic,
)
from tests.broker.groups.consumer.test_properties import state_of
from tests.broker.groups.harness import GroupHarness, code_of

STEPS = 60
HISTORIES_PER_TEST = 30
TESTS = 4
POLICIES = ("bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")
Read = set[tuple[str, int]]


class OldClient:
    """The classic protocol."""

    def __init__(self, harness: GroupHarness) -> None:
        self._consumer = ClassicConsumer(harness, "orders")

    def beat(self) -> None:
        self._consumer.beat()

    def leave(self) -> None:
        self._consumer.leave()

    def die(self) -> None:
        self._consumer.start_over()

    def reads(self, group: ClassicGroup | ConsumerGroup) -> Read:
        """Nothing, if the group has gone on without it."""
        consumer = self._consumer
        if consumer.member_id not in group.members:
            return set()
        if isinstance(group, ConsumerGroup):
            epoch = group.members[consumer.member_id].member_epoch
        else:
            epoch = group.generation_id
        return {("orders", n) for n in consumer.owned.get("orders", ())} if epoch == consumer.generation_id else set()


class NewClient:
    """The consumer protocol; it tells everything each time."""

    def __init__(self, harness: GroupHarness, name: int) -> None:
        self._shell = harness
        self._name = name
        self._lives = 0
        self.die()

    def die(self) -> None:
        self._lives += 1
        self.member_id = f"new-{self._name}-{self._lives}"
        self._start_over()

    def _start_over(self) -> None:
        self._epoch = 0
        self._owned: Partitions = {}

    def beat(self) -> None:
        request = heartbeat_request(
            self.member_id, self._epoch, rebalance_timeout_ms=60_000, names=["orders"], owned=self._owned
        )
        answer = send(self._shell, request)
        code = code_of(answer)
        if code == ErrorCode.NONE:
            self._epoch = answer.value.member_epoch
            self._owned = assignment_of(answer.value) or {}
        elif code != ErrorCode.NOT_COORDINATOR:
            self._start_over()

    def leave(self) -> None:
        send(self._shell, heartbeat_request(self.member_id, -1))
        self.die()

    def reads(self, group: ClassicGroup | ConsumerGroup) -> Read:
        if self.member_id not in group.members:
            return set()
        return {("orders", number) for numbers in self._owned.values() for number in numbers}


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        policy = self.random.choice(POLICIES)
        config = {"group.consumer.migration.policy": policy, "group.initial.rebalance.delay.ms": "0"}
        self.harness = consumer_harness(config, orders=4)
        self.clients: list[OldClient | NewClient] = [OldClient(self.harness) for _ in range(2)]
        self.clients += [NewClient(self.harness, name) for name in range(2)]
        self.kinds: Counter[type] = Counter()

    @property
    def group(self) -> ClassicGroup | ConsumerGroup | None:
        group = self.harness.context.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup | ConsumerGroup)
        return group

    def step(self) -> None:
        client = self.random.choice(self.clients)
        action = self.random.choices(
            ("beat", "leave", "die", "wait", "grow", "restart", "fail"), (14, 2, 0.5, 3, 0.3, 0.7, 0.7)
        )[0]
        match action:
            case "beat":
                client.beat()
            case "leave":
                client.leave()
            case "die":
                client.die()
            case "wait":
                self.harness.advance(self.random.choice((10, 1_000, 12_000)))
            case "grow":
                topic = self.harness.image.topics["orders"]
                self.harness.image = with_topic(self.harness.image, "orders", len(topic.partitions) + 1)
            case "restart":
                self.restart()
            case "fail":
                self.harness.append_error = self.random.choice((None, KafkaStorageError("disk full")))
        self.check()

    def restart(self) -> None:
        group = self.group
        before = state_of(group) if isinstance(group, ConsumerGroup) else None
        self.harness.restart()
        if isinstance(group, ConsumerGroup):
            assert isinstance(self.group, ConsumerGroup), f"seed={self.seed}"
            assert state_of(self.group) == before, f"seed={self.seed}"

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        self.kinds[type(group)] += 1
        readers = Counter(partition for client in self.clients for partition in client.reads(group))
        assert max(readers.values(), default=1) == 1, f"seed={self.seed}: two read {readers}"
        assert group.epoch >= group.assignment_epoch if isinstance(group, ConsumerGroup) else True

    def quiesce(self) -> None:
        """A client that joins last makes everybody look again: a classic rebalance does not survive a restart."""
        self.harness.append_error = None
        self.clients.append(OldClient(self.harness))
        for _ in range(80):
            self.harness.advance(2_000)
            for client in self.clients:
                client.beat()
            self.check()
        group = self.group
        assert group is not None
        assert group.state_name == "Stable", f"seed={self.seed}: {group.state_name}"
        owned = sorted(partition for client in self.clients for partition in client.reads(group))
        count = len(self.harness.image.topics["orders"].partitions)
        assert owned == [("orders", number) for number in range(count)], f"seed={self.seed}: {owned}"
        waiting = {key.member_id for key in self.harness.timer_keys()}
        assert waiting == set(group.members), f"seed={self.seed}: timers of {waiting ^ set(group.members)}"


@pytest.mark.parametrize("start", range(0, TESTS * HISTORIES_PER_TEST, HISTORIES_PER_TEST))
def test_random_histories(start: int) -> None:
    kinds: Counter[type] = Counter()
    for seed in range(start, start + HISTORIES_PER_TEST):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.quiesce()
        kinds += world.kinds
    assert min(kinds[ClassicGroup], kinds[ConsumerGroup]) > STEPS, "histories of one kind only"
