"""Groups of real consumers on a broker that is a process of its own: members leave, die and come back; so does it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.members import Member, committed
from tests.broker.wire import RawClient
from tests.processes.broker_process import BrokerProcess
from tests.processes.consumer_process import ConsumerProcess

SETTINGS = {"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000"}
WAIT_S = 30


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        yield broker
        assert broker.stop() == 0
    assert "a bug" not in broker.log.read_text()


def create_topic(broker: BrokerProcess, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions)])[name].result(10)


def produce(broker: BrokerProcess, topic: str, partitions: int, numbers: range) -> None:
    """One record per number, the partitions in turn."""
    errors: list[object] = []

    def delivered(error: object, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % partitions, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert not errors


def wait_until(condition: Callable[[], Any], what: str, seconds: float = WAIT_S) -> float:
    """How long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - started


# ---- Consumers that a test polls itself


class Polled:
    """A consumer that gets further only when the test polls it."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **settings: Any) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self.consumer.subscribe([topic])
        self.processed: list[int] = []

    def partitions(self) -> list[int]:
        return [partition.partition for partition in self.consumer.assignment()]

    def poll(self, timeout_s: float = 0.0) -> Message | None:
        message: Message | None = self.consumer.poll(timeout_s)
        assert message is None or message.error() is None, message.error()
        return message

    def process(self, count: int) -> None:
        """Reads as many more and commits them."""
        deadline = time.monotonic() + WAIT_S
        last = None
        for _ in range(count):
            while (message := self.poll(0.1)) is None:
                assert time.monotonic() < deadline, f"{len(self.processed)} records and then nothing"
            self.processed.append(int(message.value() or b""))
            last = message
        assert last is not None
        self.consumer.commit(asynchronous=False)

    def leave(self) -> None:
        self.consumer.close()


def poll_all(members: list[Polled]) -> list[list[int]]:
    """One turn for everybody, without reading: nothing was written."""
    for member in members:
        assert member.poll() is None
    return [member.partitions() for member in members]


def test_when_one_of_ten_leaves_the_rest_take_over_before_its_session_ends(
    broker: BrokerProcess,
) -> None:
    create_topic(broker, "shared", 20)
    members = [Polled(broker, "ten", "shared") for _ in range(10)]  # with the session and heartbeats of every client
    wait_until(lambda: all(len(partitions) == 2 for partitions in poll_all(members)), "two partitions for each")

    members.pop().leave()
    everything = list(range(20))
    took = wait_until(lambda: sorted(chain.from_iterable(poll_all(members))) == everything, "all are assigned again")
    assert took < 20, "a session of 45 s was waited for"
    assert {len(partitions) for partitions in poll_all(members)} == {2, 3}
    for member in members:
        member.leave()


def test_a_member_leaves_after_twenty_records_each_and_nothing_is_processed_twice(broker: BrokerProcess) -> None:
    create_topic(broker, "hundred", 4)
    produce(broker, "hundred", 4, range(100))
    session = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 500}
    first, second = (Polled(broker, "pair", "hundred", **session) for _ in range(2))
    wait_until(
        lambda: all(len(turn_without_reading(member)) == 2 for member in (first, second)), "two partitions for each"
    )
    for member in (first, second):
        member.consumer.resume(member.consumer.assignment())
        member.process(20)

    second.leave()
    left = time.monotonic()
    wait_until(lambda: len(turn_without_reading(first)) == 4, "the first has all four")
    assert time.monotonic() - left < 30, "a session of 60 s was waited for"
    first.consumer.resume(first.consumer.assignment())
    first.process(60)
    assert sorted(first.processed + second.processed) == list(range(100))
    first.leave()


def turn_without_reading(member: Polled) -> list[int]:
    """What it has been assigned by now."""
    member.consumer.pause(member.consumer.assignment())
    assert member.poll() is None
    return member.partitions()


# ---- Consumers that are killed


def shared(one: ConsumerProcess, other: ConsumerProcess) -> bool:
    """Three partitions, each with one owner, and nobody without any."""
    return sorted(one.assignment + other.assignment) == [0, 1, 2] and bool(one.assignment and other.assignment)


def test_a_killed_consumers_partitions_move_when_its_session_ends_and_come_back_with_it(broker: BrokerProcess) -> None:
    create_topic(broker, "topic", 3)
    session_timeout_ms = 5_000  # long enough for a survivor on a busy machine

    def consumer() -> ConsumerProcess:
        return ConsumerProcess(broker.bootstrap_servers, "group", "topic", session_timeout_ms=session_timeout_ms)

    def wait_for_records(count: int) -> None:
        """Read, and committed."""
        wait_until(lambda: sum(len(member.records) for member in members) >= count, f"{count} records are read")
        with RawClient(broker.port) as client:
            wait_until(
                lambda: sum(committed(client, "group", "topic", partitions=range(3)).values()) == count,
                f"{count} records are committed",
            )

    with ExitStack() as processes:
        survivor, victim = members = [processes.enter_context(consumer()) for _ in range(2)]
        wait_until(lambda: shared(survivor, victim), "three partitions are shared")
        produce(broker, "topic", 3, range(40))
        wait_for_records(40)
        assert survivor.records
        assert victim.records

        victim.kill()
        took = wait_until(lambda: survivor.assignment == [0, 1, 2], "the survivor has everything")
        assert took > session_timeout_ms / 1_000 / 2, "nobody told the broker, so it has to wait"
        produce(broker, "topic", 3, range(40, 70))
        wait_for_records(70)

        members.append(processes.enter_context(consumer()))
        wait_until(lambda: shared(survivor, members[2]), "they are shared again")
        produce(broker, "topic", 3, range(70, 100))
        wait_for_records(100)
        assert members[2].records
        read = sorted(record for member in members for record in member.records)
        assert read == sorted((number % 3, number // 3) for number in range(100)), "every record exactly once"
        for member in (survivor, members[2]):
            member.leave()


# ---- Members that say exactly what they are told to, on a broker that is killed

KILLS = 10
COMMITS_BETWEEN_KILLS = 50


def settled(member: Member) -> bool:
    """Whether its heartbeat is taken; a coordinator that is still loading its groups says so."""
    code = member.heartbeat()
    assert code in (0, 14), code  # COORDINATOR_LOAD_IN_PROGRESS
    return code == 0


@pytest.fixture
def joining(broker: BrokerProcess) -> Iterator[Callable[[str], Member]]:
    """Members of the group that is named; their connections are closed afterwards."""
    with ExitStack() as opened:
        yield lambda group: opened.enter_context(closing(Member(broker.port, group, session_timeout_ms=30_000)))


def test_ten_kills_of_the_broker_lose_no_commit_and_end_no_generation(
    broker: BrokerProcess, joining: Callable[[str], Member]
) -> None:
    create_topic(broker, "topic", 1)
    members = [joining("group") for _ in range(3)]
    join_together(members)
    generation_id = members[0].generation_id
    offset = 0
    for _ in range(KILLS):
        for _ in range(COMMITS_BETWEEN_KILLS):
            offset += 1
            assert members[offset % 3].commit({("topic", 0): offset}) == {("topic", 0): 0}
        broker.kill()
        broker.start()
        for member in members:
            member.reconnect()
            wait_until(partial(settled, member), "its session goes on")
        assert members[0].committed("topic") == {("topic", 0): offset}
    assert {member.generation_id for member in members} == {generation_id}
    assert [member.leave().error_code for member in members] == [0, 0, 0]


def test_a_hundred_groups_of_five_agree_at_once(broker: BrokerProcess, joining: Callable[[str], Member]) -> None:
    create_topic(broker, "topic", 5)
    groups = [[joining(f"group-{number}") for _ in range(5)] for number in range(100)]
    everybody = list(chain.from_iterable(groups))
    join_together(everybody)
    for members in groups:
        assert len({(member.generation_id, member.leader) for member in members}) == 1
        (leader,) = [member for member in members if member.is_leader]
        assert sorted(leader.members) == sorted(member.member_id for member in members)
    assert {member.heartbeat() for member in everybody} == {0}
    for number, member in enumerate(everybody):
        assert member.commit({("topic", number % 5): number}) == {("topic", number % 5): 0}
    for number, members in enumerate(groups):
        found = members[0].committed("topic", partitions=range(5))
        assert list(found.values()) == list(range(5 * number, 5 * number + 5))
    assert {member.leave().error_code for member in everybody} == {0}


def join_together(members: list[Member]) -> None:
    """All at once, each in its own group: joined, and in possession of what its leader gave it."""
    for member in members:
        member.find_coordinator()
    for expected in (79, 0):  # MEMBER_ID_REQUIRED: the first time each is only given its id
        for member in members:
            member.send_join()
        assert {member.joined().error_code for member in members} == {expected}
    for member in members:
        member.send_sync({name: name.encode() for name in member.members} if member.is_leader else None)
    for member in members:
        assert member.client.receive().assignment == member.member_id.encode()
