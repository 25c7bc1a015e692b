"""What holds in every consumer group, whatever its members, its topics, its log and its broker do.

Clients here are as real ones: they give partitions up late, lose answers, change their minds, leave, leave for a while,
and die. The log fails at times or commits late, and the broker restarts from it. A failure names the seed of its
history.
"""

from collections import Counter
from random import Random

import pytest

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import LEAVE_GROUP_STATIC_MEMBER_EPOCH, MemberState
from barnabas.broker.groups.consumer.sessions import REBALANCE, SESSION
from barnabas.broker.groups.context import TimerKey
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from tests.broker.groups.consumer.client import (
    GROUP,
    Partitions,
    assignment_of,
    consumer_harness,
    group_of,
    heartbeat_request,
    send,
    with_topic,
    without_topic,
)
from tests.broker.groups.harness import GroupHarness, code_of

STEPS = 80
HISTORIES_PER_TEST = 40
TESTS = 5
REBALANCE_MS = 60_000
TOPICS = ("bills", "orders", "returns")
REGEXES = ("(bills|orders)", ".*r.*")


class Consumer:
    """One client. It reads what it owns; it owns what it was last told, once it has given up the rest."""

    def __init__(self, name: int, random: Random) -> None:
        self.random = random
        self.name = name
        self.lives = 0
        self.instance_id = f"instance-{name // 2}" if random.random() < 0.4 else None  # two may be set up alike
        self.be_born()
        self.choose_subscription()

    def be_born(self) -> None:
        """A new process; a static one is known by its instance id only."""
        self.lives += 1
        self.member_id = f"member-{self.name}-{self.lives}"
        self.start_over()

    def start_over(self) -> None:
        self.epoch = 0
        self.is_in = False
        self.must_tell_all = True
        self.owned: Partitions = {}
        self.told: Partitions = {}

    def choose_subscription(self) -> None:
        self.names = self.random.sample(TOPICS, self.random.randint(0, 3))
        self.regex = self.random.choice(("", "", *REGEXES))
        self.is_new_subscription = True

    def reads(self, topic: str) -> bool:
        """For a check that does not ask the broker."""
        matches = {"(bills|orders)": topic in ("bills", "orders"), ".*r.*": "r" in topic, "": False}
        return topic in self.names or matches[self.regex]

    def give_up_and_take(self) -> None:
        self.owned = self.told

    @property
    def is_about_to_take(self) -> bool:
        """Then a client does not say what it owns: the broker would take what is missing for given up."""
        return any(not numbers <= self.owned.get(topic_id, frozenset()) for topic_id, numbers in self.told.items())


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        interval_ms = self.random.choice(("0", "0", "1000"))
        self.harness: GroupHarness = consumer_harness({"group.consumer.assignment.interval.ms": interval_ms}, orders=3)
        self.incarnations = Counter({"orders": 1})
        self.consumers = [Consumer(name, self.random) for name in range(5)]
        self.epoch = 0

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.harness.context.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    # ---- what can happen

    def step(self) -> None:
        consumer = self.random.choice(self.consumers)
        actions = {
            self.beat: 12,
            self.lose_answer: 2,
            self.give_up_and_take: 8,
            self.change_subscription: 1,
            self.leave: 1,
            self.die: 1,
            self.wait: 3,
            self.change_topics: 1,
            self.restart: 0.5,
            self.fail_over: 0.5,
            self.change_log: 1,
        }
        (action,) = self.random.choices(list(actions), list(actions.values()))
        action(consumer)
        self.check()

    def beat(self, consumer: Consumer, *, is_lost: bool = False) -> None:
        is_full = consumer.must_tell_all or consumer.is_new_subscription or self.random.random() < 0.2
        if is_full and consumer.is_about_to_take:
            consumer.give_up_and_take()
        tells_owned = is_full or (not consumer.is_about_to_take and self.random.random() < 0.8)
        request = heartbeat_request(
            consumer.member_id,
            consumer.epoch,
            instance_id=consumer.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            names=consumer.names if is_full else None,
            regex=consumer.regex if is_full else None,
            owned=consumer.owned if tells_owned else None,
        )
        answer = send(self.harness, request)
        self.harness.commit()
        code = code_of(answer)
        consumer.must_tell_all = is_lost or code != ErrorCode.NONE
        if is_lost or code == ErrorCode.NOT_COORDINATOR:
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            consumer.start_over()
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            consumer.be_born()
        elif code == ErrorCode.UNRELEASED_INSTANCE_ID:
            pass  # another one has its name
        else:
            assert code == ErrorCode.NONE, self.failure(code)
            response = answer.value
            assert response.member_epoch >= consumer.epoch, self.failure("an epoch went back")
            consumer.epoch, consumer.is_in = response.member_epoch, True
            consumer.is_new_subscription &= not is_full
            if (assignment := assignment_of(response)) is not None:
                consumer.told = assignment

    def lose_answer(self, consumer: Consumer) -> None:
        self.beat(consumer, is_lost=True)

    def give_up_and_take(self, consumer: Consumer) -> None:
        consumer.give_up_and_take()

    def change_subscription(self, consumer: Consumer) -> None:
        consumer.choose_subscription()

    def leave(self, consumer: Consumer) -> None:
        epoch = self.random.choice((-1, LEAVE_GROUP_STATIC_MEMBER_EPOCH)) if consumer.instance_id is not None else -1
        send(self.harness, heartbeat_request(consumer.member_id, epoch, instance_id=consumer.instance_id))
        self.harness.commit()
        consumer.be_born()

    def die(self, consumer: Consumer) -> None:
        consumer.be_born()

    def wait(self, consumer: Consumer) -> None:
        self.harness.advance(self.random.choice((100, 1_500, 11_000, 30_000)))

    def change_topics(self, consumer: Consumer) -> None:
        name, image = self.random.choice(TOPICS), self.harness.image
        topic = image.topic(name)
        if topic is None:
            self.incarnations[name] += 1
            count = self.random.randint(1, 4)
            self.harness.image = with_topic(image, name, count, incarnation=self.incarnations[name])
        elif self.random.random() < 0.3:
            self.harness.image = without_topic(image, name)
        else:
            self.harness.image = with_topic(image, name, len(topic.partitions) + 1, incarnation=self.incarnations[name])

    def restart(self, consumer: Consumer) -> None:
        before = state_of(self.group)
        self.random.choice((self.harness.restart, self.harness.crash))()
        assert state_of(self.group) == before, self.failure("replay makes another state")

    def fail_over(self, consumer: Consumer) -> None:
        """Somebody asks meanwhile, and is refused unless all that the answer shows is committed."""
        answer = send(self.harness, heartbeat_request(consumer.member_id, consumer.epoch, owned=consumer.owned))
        consumer.must_tell_all = True
        is_committed = self.harness.is_all_committed
        self.harness.fail_over()
        assert is_committed or code_of(answer) != ErrorCode.NONE, self.failure("an answer shows what is lost")
        self.epoch = self.group.epoch if self.group is not None else 0

    def change_log(self, consumer: Consumer) -> None:
        """Whether it takes records."""
        self.harness.append_error = self.random.choice((None, None, KafkaStorageError("disk full")))
        self.harness.commits_at_once = self.random.random() < 0.5

    # ---- what must hold

    def failure(self, what: object) -> str:
        return f"seed={self.seed}: {what}"

    def check(self) -> None:
        self.check_readers()
        group = self.group
        if group is None:
            return
        assert group.epoch >= self.epoch, self.failure("the group's epoch went back")
        assert group.assignment_epoch <= group.epoch, self.failure("a target of an epoch to come")
        self.epoch = group.epoch
        owners = Counter(
            (topic_id, number)
            for member in group.members.values()
            for partitions in (member.assigned_partitions, member.partitions_pending_revocation)
            for topic_id, numbers in partitions.items()
            for number in numbers
        )
        assert max(owners.values(), default=1) == 1, self.failure(f"partitions with two owners: {owners}")
        assert owners.keys() == group._partition_epochs.keys(), self.failure("the group has lost count")
        if self.harness.is_all_committed:
            self.check_timers(group)

    def check_readers(self) -> None:
        """No two clients read a partition, except one that the broker has given up on and that does not know it yet."""
        members = self.group.members if self.group is not None else {}
        readers = Counter(
            (topic_id, number)
            for consumer in self.consumers
            if consumer.member_id in members and consumer.is_in
            for topic_id, numbers in consumer.owned.items()
            for number in numbers
        )
        assert max(readers.values(), default=1) == 1, self.failure(f"partitions with two readers: {readers}")

    def check_timers(self, group: ConsumerGroup) -> None:
        keys = set(self.harness.timers.keys())
        expected = {TimerKey(SESSION, GROUP, member_id) for member_id in group.members}
        expected |= {
            TimerKey(REBALANCE, GROUP, member.member_id)
            for member in group.members.values()
            if member.state == MemberState.UNREVOKED_PARTITIONS and member.member_epoch >= 0
        }
        assert keys == expected, self.failure(f"timers {keys ^ expected}")

    # ---- how it ends

    def quiesce(self) -> None:
        """With everybody alive and the log in order, the group comes to rest."""
        self.harness.append_error, self.harness.commits_at_once = None, True
        self.harness.commit()
        for _ in range(60):
            self.harness.advance(3_000)
            for consumer in self.consumers:
                self.beat(consumer)
                consumer.give_up_and_take()
            self.check()
        group = group_of(self.harness)
        assert group.state_name == "Stable", self.failure(group.state_name)
        self.check_result(group)
        self.restart(self.consumers[0])

    def check_result(self, group: ConsumerGroup) -> None:
        members = [consumer for consumer in self.consumers if consumer.member_id in group.members]
        assert len(members) == len(group.members), self.failure("a ghost is left")
        for name in TOPICS:
            topic = self.harness.image.topic(name)
            readers = [consumer for consumer in members if consumer.reads(name)]
            if topic is None or not readers:
                continue
            owned = sorted(number for consumer in readers for number in consumer.owned.get(topic.topic_id, ()))
            assert owned == list(range(len(topic.partitions))), self.failure(f"{name}: {owned}")
        known = {topic.topic_id for topic in self.harness.image.topics.values()}
        for consumer in members:
            assert set(consumer.owned) <= known, self.failure("a partition of a topic that is gone")


def state_of(group: ConsumerGroup | None) -> object:
    """Returns everything that comes from records."""
    if group is None:
        return None
    names = (
        "epoch", "metadata_hash", "members", "static_members", "assignment_epoch", "assignment_timestamp_ms",
        "target_assignment", "classic_members", "classic_protocols", "_assignors", "_partition_epochs",
    )  # fmt: skip
    subscriptions = group.subscriptions
    counts = (subscriptions.by_name, subscriptions.by_regex, subscriptions.resolved)
    return {name: getattr(group, name) for name in names}, counts


@pytest.mark.parametrize("start", range(0, TESTS * HISTORIES_PER_TEST, HISTORIES_PER_TEST))
def test_random_histories(start: int) -> None:
    for seed in range(start, start + HISTORIES_PER_TEST):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.quiesce()
