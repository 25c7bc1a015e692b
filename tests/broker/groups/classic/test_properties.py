"""What holds in every classic group, whatever its members, its log and its broker do.

Clients here are as real ones: they join with the id they were given, assign if they lead, heartbeat, commit, leave,
lose answers, ask twice, and die. The log fails at times or commits late, and the broker restarts from it. A failure
names the seed of its history.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.rebalance import session_key
from barnabas.broker.groups.classic.records import group_metadata_record
from barnabas.broker.groups.classic.state import EMPTY, STABLE
from barnabas.protocol.errors import ErrorCode, KafkaError, KafkaStorageError
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.leave_group import MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.protocol.stored.group_records import GroupMetadataValue
from tests.broker.groups.classic.members import GROUP, REBALANCE_MS, SESSION_MS, Classic, subscribed
from tests.broker.groups.harness import code_of

R = TypeVar("R")

PARTITIONS = 6
STEPS = 100
HISTORIES_PER_TEST = 250
TESTS = 8

START_OVER = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class Consumer:
    """One client. It believes what it was last told."""

    def __init__(self, name: int, is_static: bool) -> None:
        self.name = name
        self.instance = f"instance-{name // 2}" if is_static else None  # two may be set up alike, by mistake
        self.protocols: dict[str, bytes] | None = None
        self.member_id = ""
        self.generation_id = -1
        self.owned: frozenset[int] = frozenset()
        self.is_in = False
        """It was told what it owns, and has not been told to join again."""
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None
        self.syncing_as = ("", -1)
        """Its member id and generation when it asked."""

    def forget(self) -> None:
        self.member_id, self.generation_id, self.owned, self.is_in = "", -1, frozenset(), False

    def drop(self) -> None:
        """Its connection is lost, and with it the answers."""
        self.joining = self.syncing = None


class History:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.groups = Classic({"group.initial.rebalance.delay.ms": "1000"}, seed=seed)
        self.consumers = [Consumer(name, self.random.random() < 0.4) for name in range(self.random.randint(1, 5))]
        self.promises: list[Promise[JoinGroupResponse] | Promise[SyncGroupResponse]] = []
        self.owners: dict[tuple[int, int], str] = {}
        """Who was told to own a partition in a generation, by generation and partition."""
        self.generation_id = 0
        self.told: Counter[ErrorCode] = Counter()

    # ---- what clients do

    def join(self, consumer: Consumer) -> None:
        consumer.is_in = False
        if consumer.protocols is None or self.random.random() < 0.2:
            consumer.protocols = self.protocols()
        consumer.joining = self.groups.join(
            consumer.member_id,
            instance=consumer.instance,
            protocols=consumer.protocols,
            version=self.random.choice((3, 5, 9)) if consumer.instance is None else self.random.choice((5, 9)),
        )
        self.promises.append(consumer.joining)

    def protocols(self) -> dict[str, bytes]:
        names = self.random.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin",)))
        metadata = subscribed(*self.random.choice((("orders",), ("orders", "payments"))))
        return dict.fromkeys(names, metadata)

    def on_joined(self, consumer: Consumer) -> None:
        answer, consumer.joining = consumer.joining, None
        assert answer is not None
        code = self.code_of(answer)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            consumer.member_id = answer.value.member_id
        elif code in START_OVER:
            consumer.forget()
        if code != ErrorCode.NONE:
            return
        joined = answer.value
        if joined.generation_id != consumer.generation_id or joined.member_id != consumer.member_id:
            consumer.owned = frozenset()
        consumer.member_id, consumer.generation_id = joined.member_id, joined.generation_id
        assigned: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = [member.member_id for member in joined.members]
            self.random.shuffle(members)
            for partition in range(PARTITIONS):
                member_id = members[partition % len(members)]
                assigned[member_id] = assigned.get(member_id, b"") + bytes([partition])
        consumer.syncing_as = (joined.member_id, joined.generation_id)
        consumer.syncing = self.groups.sync(
            joined.member_id, joined.generation_id, assigned, instance=consumer.instance
        )
        self.promises.append(consumer.syncing)

    def on_synced(self, consumer: Consumer) -> None:
        answer, consumer.syncing = consumer.syncing, None
        assert answer is not None
        code = self.code_of(answer)
        if code in START_OVER:
            consumer.forget()
        elif code == ErrorCode.NONE:
            consumer.is_in = True
            consumer.owned = frozenset(answer.value.assignment)
            self.own(consumer)

    def own(self, consumer: Consumer) -> None:
        """At most one owner for each partition and generation. A static member's new id takes over from the old."""
        member_id, generation_id = consumer.syncing_as
        identity = consumer.instance or member_id
        for partition in consumer.owned:
            owner = self.owners.setdefault((generation_id, partition), identity)
            assert owner == identity, f"{identity} and {owner} own {partition} in generation {generation_id}"

    def heartbeat(self, consumer: Consumer) -> None:
        if not consumer.member_id:
            return
        answer = self.groups.heartbeat(consumer.member_id, consumer.generation_id, instance=consumer.instance)
        code = self.code_of(self.settled(answer))
        if code in START_OVER:
            consumer.forget()
        elif code != ErrorCode.NONE:
            consumer.is_in = False

    def commit(self, consumer: Consumer) -> None:
        """What is accepted comes from a member of the current generation."""
        group = self.groups.context.groups.get(GROUP)
        if not isinstance(group, ClassicGroup) or not consumer.member_id:
            return
        is_member = group.has_member(consumer.member_id)
        is_fenced = consumer.instance is not None and group.static_members.get(consumer.instance) != consumer.member_id
        is_accepted = True
        try:
            group.check_offset_commit(consumer.member_id, consumer.instance, consumer.generation_id, 9)
        except KafkaError:
            is_accepted = False
        is_simple = group.state is EMPTY and consumer.generation_id < 0
        if is_accepted and not is_simple:
            assert is_member, "one that is no member committed"
            assert not is_fenced, "one that is fenced committed"
            assert consumer.generation_id == group.generation_id, "one of another generation committed"

    def leave(self, consumer: Consumer) -> None:
        if consumer.member_id:
            self.settled(
                self.groups.leave(
                    MemberIdentity(member_id=consumer.member_id, group_instance_id=consumer.instance, reason="bye")
                )
            )
            consumer.forget()
            consumer.drop()

    def die(self, consumer: Consumer) -> None:
        consumer.forget()
        consumer.drop()

    def lose_connection(self, consumer: Consumer) -> None:
        consumer.drop()

    def remove_by_name(self, consumer: Consumer) -> None:
        if consumer.instance is not None:
            self.settled(self.groups.leave(MemberIdentity(member_id="", group_instance_id=consumer.instance)))

    def go_on(self, consumer: Consumer) -> None:
        """The next thing that a client in its right mind does."""
        if consumer.joining is not None:
            if consumer.joining.done:
                self.on_joined(consumer)
        elif consumer.syncing is not None:
            if consumer.syncing.done:
                self.on_synced(consumer)
        elif consumer.is_in:
            self.heartbeat(consumer)
        else:
            self.join(consumer)

    def code_of(self, answer: Promise[Any]) -> ErrorCode:
        code = code_of(answer)
        self.told[code] += 1
        return code

    def settled(self, answer: Promise[R]) -> Promise[R]:
        """Commits what it waits for."""
        if not answer.done:
            self.groups.commit()
        return answer

    # ---- what happens to the broker

    def toggle_log(self) -> None:
        self.groups.append_error = None if self.groups.append_error else KafkaStorageError("no space")

    def toggle_commits(self) -> None:
        self.groups.commits_at_once = not self.groups.commits_at_once
        if self.groups.commits_at_once:
            self.groups.commit()

    def fail_over(self) -> None:
        self._begin_again(self.groups.fail_over)

    def restart(self) -> None:
        self._begin_again(self.groups.restart)

    def _begin_again(self, load: Callable[[], None]) -> None:
        load()
        assert all(promise.done for promise in self.promises), "one waits for a broker that is gone"
        stored, loaded = durable(self.groups), in_memory(self.groups)
        assert loaded == stored, f"{stored} was replayed as {loaded}"
        group = self.groups.context.groups.get(GROUP)
        self.generation_id = group.generation_id if isinstance(group, ClassicGroup) else 0

    # ---- one history

    def step(self) -> None:
        consumer = self.random.choice(self.consumers)
        by_consumer: list[tuple[Callable[[Consumer], None], int]] = [
            (self.go_on, 60), (self.heartbeat, 10), (self.commit, 10), (self.leave, 2), (self.die, 2),
            (self.lose_connection, 3), (self.remove_by_name, 1), (self.join, 2),
        ]  # fmt: skip
        by_world: list[tuple[Callable[[], None], int]] = [
            (self.wait, 25), (self.fail_over, 1), (self.restart, 2),
            (self.toggle_log, 6 if self.groups.append_error else 1),
            (self.toggle_commits, 2 if self.groups.commits_at_once else 6),
        ]  # fmt: skip
        choices = [(lambda act=act: act(consumer), weight) for act, weight in by_consumer] + by_world
        self.random.choices([act for act, _ in choices], [weight for _, weight in choices])[0]()
        self.check()

    def wait(self) -> None:
        self.groups.advance(self.random.choice((10, 100, 1000, 1000, 1000, 3000, 3000, SESSION_MS + 1, REBALANCE_MS)))

    def check(self) -> None:
        group = self.groups.context.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            self.generation_id = 0  # it could not be stored, so it never was
            return
        assert group.generation_id >= self.generation_id, "a generation went back"
        self.generation_id = group.generation_id
        waiting = [member for member in group.members.values() if member.awaiting_join is not None]
        assert len(waiting) == group.awaiting_join_count
        assert (group.leader_id in group.members) == bool(group.members)
        assert set(group.static_members.values()) <= set(group.members)
        assert group.pending_sync_members <= set(group.members)
        assert not (group.members and group.state is EMPTY)
        if group.state is STABLE and self.groups.commits_at_once:
            assert members_of(in_memory(self.groups)) == members_of(durable(self.groups)), "not what was stored"
        watched = {key.member_id for key in self.groups.timer_keys() if key.kind == "classic-session"}
        assert watched <= set(group.members) | group.pending_members, "a timer waits for somebody who is gone"
        for member in group.members.values():
            is_watched = self.groups.timers.is_scheduled(session_key(group, member.member_id))
            assert is_watched or member.has_satisfied_heartbeat, f"nobody notices when {member.member_id} dies"

    def end(self) -> None:
        """Everybody is gone. In the end nobody waits, and no timer is left."""
        self.groups.append_error = None
        self.groups.commits_at_once = True
        self.groups.commit()
        for _ in range(12):
            self.groups.advance(REBALANCE_MS)
        assert all(promise.done for promise in self.promises), "one still waits"
        assert self.groups.timer_keys() == []
        group = self.groups.context.groups.get(GROUP)
        assert group is None or group.is_empty
        assert durable_generations(self.groups) == sorted(durable_generations(self.groups))


def durable(groups: Classic) -> GroupMetadataValue | None:
    """The group as its last record tells it."""
    values = [value for _, value in groups.records() if isinstance(value, GroupMetadataValue)]
    return values[-1] if values else None


def in_memory(groups: Classic) -> GroupMetadataValue | None:
    group = groups.context.groups.get(GROUP)
    if not isinstance(group, ClassicGroup):
        return None
    value = group_metadata_record(
        group, {member.member_id: member.assignment for member in group.members.values()}
    ).value
    assert isinstance(value, GroupMetadataValue)
    return value


def members_of(value: GroupMetadataValue | None) -> object:
    assert value is not None
    return value.generation, value.leader, sorted((one.member_id, one.assignment) for one in value.members)


def durable_generations(groups: Classic) -> list[int]:
    return [value.generation for _, value in groups.records() if isinstance(value, GroupMetadataValue)]


@pytest.mark.parametrize("first_seed", range(0, TESTS * HISTORIES_PER_TEST, HISTORIES_PER_TEST))
def test_whatever_happens_the_rules_of_a_classic_group_hold(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + HISTORIES_PER_TEST):
        history = History(seed)
        try:
            for _ in range(STEPS):
                history.step()
            history.end()
        except Exception as error:
            raise AssertionError(f"seed={seed}: {error}") from error


def test_histories_reach_what_they_are_about() -> None:
    """They would prove little if groups never became stable, or nobody ever was fenced."""
    histories = [History(seed) for seed in range(100)]
    for history in histories:
        for _ in range(STEPS):
            history.step()
    told = sum((history.told for history in histories), Counter[ErrorCode]())
    assert sum(bool(history.owners) for history in histories) > 50
    assert {
        ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.NOT_COORDINATOR,
    } <= set(told)  # fmt: skip
