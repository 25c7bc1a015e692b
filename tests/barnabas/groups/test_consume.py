"""`barnabas consume --group`: a member like any other, beside a real client."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.__main__ import main
from barnabas.client.admin import create_topic
from barnabas.client.client import Client
from barnabas.client.connection import parse_addresses
from barnabas.client.group_member import range_shares
from barnabas.commands.consume import CtrlCLater
from barnabas.testing import Broker
from tests.barnabas.processes import TIMEOUT_S, environment, run

AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
"""The first member does not wait for others."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    if servers := os.environ.get("BARNABAS_TEST_BOOTSTRAP_SERVERS"):
        yield servers
        return
    with Broker(config=AT_ONCE) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def env(servers: str) -> dict[str, str]:
    return environment(BARNABAS_BOOTSTRAP_SERVERS=servers)


@pytest.fixture
def names(servers: str) -> tuple[str, str]:
    """A topic with two partitions, and a group."""
    now = time.time_ns()
    with Client(parse_addresses(servers)) as client:
        create_topic(client, f"orders-{now}", 2)
    return f"orders-{now}", f"billing-{now}"


@pytest.fixture
def produce(servers: str, names: tuple[str, str]) -> Callable[..., None]:
    def records(partition: int, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": servers})
        for value in values:
            producer.produce(names[0], value, partition=partition)
        assert producer.flush(TIMEOUT_S) == 0

    return records


@pytest.fixture
def consume(servers: str, names: tuple[str, str], capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., bytes]:
    topic, group = names

    def command(*options: str) -> bytes:
        assert main(["consume", topic, "--group", group, "-b", servers, *options]) == 0
        return capsysbinary.readouterr().out

    return command


def test_a_group_goes_on_behind_what_was_printed(produce: Callable[..., None], consume: Callable[..., bytes]) -> None:
    produce(0, b"1", b"2", b"3")
    produce(1, b"a")
    assert sorted(consume().split()) == [b"1", b"2", b"3", b"a"]
    assert consume() == b""
    produce(0, b"4")
    assert consume("--from", "end") == b"4\n"  # where it has committed, the group knows better


def test_no_more_is_committed_than_was_asked_for(produce: Callable[..., None], consume: Callable[..., bytes]) -> None:
    produce(0, b"1", b"2", b"3")
    assert consume("--max", "1") == b"1\n"
    assert consume("--max", "1") == b"2\n"
    assert consume() == b"3\n"


def test_where_nothing_is_committed_the_user_says_where_to_start(
    produce: Callable[..., None], consume: Callable[..., bytes]
) -> None:
    produce(0, b"1", b"2")
    assert consume("--from", "-1") == b"2\n"


def test_partitions_are_shared_with_another_client_and_handed_over_on_ctrl_c(
    servers: str, env: dict[str, str], names: tuple[str, str], produce: Callable[..., None]
) -> None:
    topic, group = names
    assigned: list[list[int]] = []

    def on_assign(_: Any, partitions: Any) -> None:
        assigned.append(sorted(each.partition for each in partitions))

    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "consume", topic, "--group", group, "--follow", "--format", "%p %v\\n"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as process:
        assert process.stdout is not None
        produce(0, b"first")
        assert process.stdout.readline() == b"0 first\n"
        settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
        other = Consumer(settings | {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 200})
        try:
            other.subscribe([topic], on_assign=on_assign)
            poll_until(other, lambda: bool(assigned))
            (theirs,) = assigned[-1]
            ours = 1 - theirs
            produce(ours, b"shared")
            assert process.stdout.readline() == b"%d shared\n" % ours
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=TIMEOUT_S) == (b"", b"")
            assert process.returncode == 0
            poll_until(other, lambda: assigned[-1] == [0, 1])
            produce(ours, b"handed over")
            message = poll_until(other, lambda: False, or_message=True)
            assert (message.partition(), message.value()) == (ours, b"handed over")
        finally:
            other.close()


def poll_until(consumer: Consumer, done: Callable[[], bool], *, or_message: bool = False) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        message = consumer.poll(0.05)
        if or_message and message is not None:
            return message
    return None


def test_a_closed_pipe_leaves_the_group(
    env: dict[str, str], names: tuple[str, str], produce: Callable[..., None]
) -> None:
    topic, group = names
    produce(0, b"1")
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "consume", topic, "--group", group, "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.stdout.close()
        produce(0, b"2")
        assert process.wait(TIMEOUT_S) == 0
    assert b"has no members: it is Empty" in run("groups", "members", group, env=env).stderr


def test_a_member_survives_a_restart_of_the_broker(tmp_path: Path) -> None:
    data_dir = str(tmp_path)
    with Broker(topics={"orders": 1}, config=AT_ONCE, data_dir=data_dir) as first:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=first.bootstrap_servers)
        assert run("produce", "orders", stdin=b"one\n", env=env).returncode == 0
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "consume", "orders", "--group", "billing", "--follow"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
    with Broker(config=AT_ONCE, data_dir=data_dir, port=first.port), process:
        assert run("produce", "orders", stdin=b"two\n", env=env).returncode == 0
        assert process.stdout.readline() == b"two\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TIMEOUT_S) == (b"", b"")
        assert process.returncode == 0
        assert run("consume", "orders", "--group", "billing", env=env).stdout == b""


def test_a_group_and_a_partition_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "orders", "--group", "billing", "--partition", "0"]) == 2
    assert "a group shares the partitions out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topics", "num_partitions", "expected"),
    [
        ({"a": ["t"]}, {"t": 3}, {"a": {"t": [0, 1, 2]}}),
        ({"b": ["t"], "a": ["t"]}, {"t": 3}, {"a": {"t": [0, 1]}, "b": {"t": [2]}}),  # in the order of their names
        ({"a": ["t"], "b": ["t"]}, {"t": 1}, {"a": {"t": [0]}, "b": {}}),  # more members than partitions
        ({"a": ["t", "u"], "b": ["u"]}, {"t": 2, "u": 2}, {"a": {"t": [0, 1], "u": [0]}, "b": {"u": [1]}}),
        ({"a": ["gone"]}, {}, {"a": {}}),  # a topic that is not there
    ],
)
def test_partitions_are_shared_as_kafkas_range_assignor_does(
    topics: dict[str, list[str]], num_partitions: dict[str, int], expected: dict[str, dict[str, list[int]]]
) -> None:
    shares = range_shares(topics, num_partitions)
    assert {
        member: {topic: list(partitions) for topic, partitions in share.items()} for member, share in shares.items()
    } == expected


def press(times: int, done: list[str]) -> None:
    with CtrlCLater():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append(f"pressed {times} times")


def test_ctrl_c_waits_for_the_end_of_a_block_and_a_second_one_does_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    done: list[str] = []
    press(0, done)
    with pytest.raises(KeyboardInterrupt):
        press(1, done)
    with pytest.raises(KeyboardInterrupt):
        press(2, done)
    assert done == ["pressed 0 times", "pressed 1 times"]
    assert signal.getsignal(signal.SIGINT) is before
