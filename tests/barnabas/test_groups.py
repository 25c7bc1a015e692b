"""`barnabas groups` against a real broker, with real consumers as members."""

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.__main__ import main
from barnabas.admin import create_topic
from barnabas.client import Client, parse_addresses
from barnabas.testing import Broker
from tests.barnabas.processes import TIMEOUT_S, one_line


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


Barnabas = Callable[[str], Done]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    if servers := os.environ.get("BARNABAS_TEST_BOOTSTRAP_SERVERS"):
        yield servers
        return
    with Broker(config={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def barnabas(servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Barnabas:
    """Runs a command line in this process."""
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", servers)

    def command(line: str) -> Done:
        status = main(line.split())
        return Done(status, *capsys.readouterr())

    return command


def new_name(prefix: str) -> str:
    return f"{prefix}-{time.time_ns()}"


def make_topic(servers: str, partitions: int = 3) -> str:
    name = new_name("orders")
    with Client(parse_addresses(servers)) as client:
        create_topic(client, name, partitions)
    return name


def produce(
    servers: str, topic: str, partition: int, count: int, *, age_s: float = 0, compression: str = "none"
) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": compression})
    timestamp = time.time_ns() // 1_000_000 - round(age_s * 1000)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=timestamp)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.fixture(scope="module")
def topic(servers: str) -> str:
    """Ten records an hour old in partition 0, four in partition 1, none in partition 2."""
    name = make_topic(servers)
    produce(servers, name, 0, 10, age_s=3600)
    produce(servers, name, 1, 4)
    return name


@pytest.fixture
def group(barnabas: Barnabas, topic: str) -> str:
    """A group without members that has read 3 records of partition 0 and everything of partition 1."""
    name = new_name("billing")
    assert barnabas(f"groups reset-offsets {name} --topic {topic}:0 --to-offset 3 --execute").status == 0
    assert barnabas(f"groups reset-offsets {name} --topic {topic}:1 --to-latest --execute").status == 0
    return name


class Running(NamedTuple):
    """A group with one member that has been assigned every partition."""

    group: str
    type: str
    topic: str


@pytest.fixture(scope="module", params=["classic", "consumer"])
def running(servers: str, request: pytest.FixtureRequest) -> Iterator[Running]:
    topic, group = make_topic(servers, 2), new_name(request.param)
    produce(servers, topic, 0, 5, age_s=60)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": request.param,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    assigned: list[Any] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + TIMEOUT_S
    message = None
    while message is None or not assigned:
        assert time.monotonic() < deadline, "no partition was assigned in time"
        message = consumer.poll(0.05)
    consumer.commit(message=message, asynchronous=False)
    yield Running(group, request.param, topic)
    consumer.close()


# ---- list, describe, members


def test_groups_are_listed_with_type_state_and_protocol(barnabas: Barnabas, group: str, running: Running) -> None:
    listed = {each["group_id"]: each for each in barnabas("groups list --json").json}
    assert (listed[group]["type"], listed[group]["state"]) == ("classic", "Empty")
    assert listed[running.group] == {
        "group_id": running.group,
        "type": running.type,
        "state": "Stable",
        "protocol_type": "consumer",
    }
    assert barnabas("groups list").out.splitlines()[0].split() == ["GROUP", "TYPE", "STATE", "PROTOCOL"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--state stable", {"running"}),  # in any case
        ("--state Empty", {"group"}),
        ("--state empty --state stable", {"group", "running"}),
        ("--type share", set()),
        ("--state stable --type share", set()),  # both must hold
        ("--type classic --type consumer", {"group", "running"}),
    ],
)
def test_lists_are_filtered(barnabas: Barnabas, group: str, running: Running, options: str, expected: set[str]) -> None:
    listed = {each["group_id"] for each in barnabas(f"groups list --json {options}").json}
    assert listed & {group, running.group} == {{"group": group, "running": running.group}[name] for name in expected}


def test_no_group_to_list_is_said(barnabas: Barnabas, group: str) -> None:
    done = barnabas("groups list --type share")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("no group is like that, of ")


def test_a_broker_without_groups_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        for line, said in {
            "list": "there are no groups\n",
            "describe --all": "there are no groups\n",
            "lag --all": "there are no groups\n",
            "list --json": "[]\n",
            "lag --all --json": "[]\n",
        }.items():
            assert main(["groups", *line.split(), "-b", broker.bootstrap_servers]) == 0
            assert "".join(capsys.readouterr()) == said


def test_a_group_without_members_is_described(barnabas: Barnabas, group: str, topic: str) -> None:
    (described,) = barnabas(f"groups describe {group} --json").json
    assert (described["state"], described["members"]) == ("Empty", [])
    assert [
        (each["topic"], each["partition"], each["committed"], each["log_end_offset"], each["lag"], each["client_id"])
        for each in described["partitions"]
    ] == [(topic, 0, 3, 10, 7, None), (topic, 1, 4, 4, 0, None)]
    title, coordinator, *table = barnabas(f"groups describe {group}").out.splitlines()
    assert title == f"{group}  (classic, Empty, 0 members)"
    assert coordinator.startswith("coordinator: 127.0.0.1:")
    assert [line.split() for line in table] == [
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST", "MEMBER"],
        [topic, "0", "3", "10", "7", "-", "-", "-"],
        [topic, "1", "4", "4", "0", "-", "-", "-"],
    ]


def test_a_running_group_is_described_with_who_reads_what(barnabas: Barnabas, running: Running) -> None:
    (described,) = barnabas(f"groups describe {running.group} --json").json
    assert (described["type"], described["state"], len(described["members"])) == (running.type, "Stable", 1)
    assert described["assignor"] == {"classic": "range", "consumer": "uniform"}[running.type]
    assert (described["epoch"] is None) == (running.type == "classic")
    first, second = described["partitions"]
    assert (first["committed"], first["log_end_offset"], first["lag"]) == (1, 5, 4)
    assert (first["client_id"], first["host"]) == ("reader", "127.0.0.1")
    assert (second["committed"], second["lag"]) == (None, None)  # assigned, and nothing committed: unknown, not 0
    text = barnabas(f"groups describe {running.group}").out
    assert f"({running.type}, Stable, 1 member)" in text
    assert first["member_id"] in text


def test_several_groups_and_all_groups_are_described(barnabas: Barnabas, group: str, running: Running) -> None:
    named = barnabas(f"groups describe {group} {running.group} {group} --json").json
    assert [each["group_id"] for each in named] == [group, running.group]
    everything = {each["group_id"] for each in barnabas("groups describe --all --json").json}
    assert {group, running.group} <= everything


def test_members_show_subscription_and_assignment(barnabas: Barnabas, running: Running) -> None:
    (member,) = barnabas(f"groups members {running.group} --json").json
    assert (member["client_id"], member["host"], member["topics"]) == ("reader", "127.0.0.1", [running.topic])
    assert member["assignment"] == {running.topic: [0, 1]}
    assert (member["epoch"] is None) == (running.type == "classic")
    columns, row = (line.split() for line in barnabas(f"groups members {running.group}").out.splitlines())
    assert dict(zip(columns, row))["ASSIGNED"] == f"{running.topic}:0,1"
    assert ("EPOCH" in columns) == (running.type == "consumer")


def test_a_group_without_members_says_so(barnabas: Barnabas, group: str) -> None:
    assert barnabas(f"groups members {group}") == (0, "", f"group {group} has no members: it is Empty\n")
    assert barnabas(f"groups members {group} --json").json == []


# ---- lag


def test_lag_is_counted_in_records_and_in_time(barnabas: Barnabas, group: str, topic: str) -> None:
    (shown,) = barnabas(f"groups lag {group} --json").json
    assert (shown["total_lag"], shown["unknown_partitions"], shown["uncommitted_partitions"]) == (7, 0, 0)
    behind, done = shown["partitions"]
    assert 3600 <= behind["lag_seconds"] < 3700
    assert (done["lag"], done["lag_seconds"]) == (0, 0)
    assert shown["max_lag_seconds"] == behind["lag_seconds"]
    title, _, first, second = barnabas(f"groups lag {group}").out.splitlines()
    assert title.startswith(f"{group}  (Empty, 7 records behind, the oldest 1h 0m old)")
    assert first.split() == [topic, "0", "3", "10", "7", "1h", "0m", "-"]
    assert second.split() == [topic, "1", "4", "4", "0", "0", "s", "-"]


def test_lag_of_a_partition_without_a_committed_offset_is_unknown(barnabas: Barnabas, running: Running) -> None:
    (shown,) = barnabas(f"groups lag {running.group} --json").json
    assert (shown["total_lag"], shown["uncommitted_partitions"]) == (4, 1)
    assert [each["lag_seconds"] is None for each in shown["partitions"]] == [False, True]
    assert "nothing committed in 1 partition" in barnabas(f"groups lag {running.group}").out


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_lag_in_time_is_that_of_the_record_inside_its_batch(barnabas: Barnabas, servers: str, compression: str) -> None:
    topic, group = make_topic(servers, 1), new_name("billing")
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1000, "compression.type": compression})
    for age_s in (5000, 4000, 3000):  # one batch
        producer.produce(topic, b"x", partition=0, timestamp=time.time_ns() // 1_000_000 - age_s * 1000)
    assert producer.flush(TIMEOUT_S) == 0
    for offset, age_s in ((0, 5000), (1, 4000), (2, 3000)):
        barnabas(f"groups reset-offsets {group} --topic {topic} --to-offset {offset} --execute")
        (shown,) = barnabas(f"groups lag {group} --json").json
        assert age_s <= shown["max_lag_seconds"] < age_s + 100


def test_records_that_are_gone_do_not_age(barnabas: Barnabas, servers: str) -> None:
    """The committed offset is before the start of the log: the oldest record still there counts."""
    topic, group = make_topic(servers, 1), new_name("billing")
    produce(servers, topic, 0, 3, age_s=7200)
    produce(servers, topic, 0, 2, age_s=60)
    barnabas(f"groups reset-offsets {group} --topic {topic} --to-offset 1 --execute")
    delete_records(servers, topic, 3)
    (shown,) = barnabas(f"groups lag {group} --json").json
    assert shown["total_lag"] == 4  # as Kafka counts
    assert 60 <= shown["max_lag_seconds"] < 160


def delete_records(servers: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(TIMEOUT_S)


def test_a_committed_offset_beyond_the_end_is_no_lag(barnabas: Barnabas, servers: str) -> None:
    """As after an unclean end of the broker, or when consumers commit what they please."""
    topic, group = make_topic(servers, 1), new_name("billing")
    commit_anything(servers, group, topic, 1000)
    (shown,) = barnabas(f"groups lag {group} --json").json
    assert (shown["total_lag"], shown["max_lag_seconds"], shown["unknown_partitions"]) == (None, None, 1)
    text = barnabas(f"groups lag {group}").out
    assert f"{topic}-0: the committed offset is beyond the end of the log" in text
    assert "unknown" in text


def commit_anything(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


# ---- reset-offsets


def new_offsets(done: Done) -> list[int]:
    return [each["new"] for each in done.json["partitions"]]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [10, 4]),
        ("--to-offset 2", [2, 2]),
        ("--to-offset 7", [7, 4]),  # beyond the end of partition 1
        ("--shift-by 2", [5, 4]),
        ("--shift-by -2", [1, 2]),
        ("--shift-by -99", [0, 0]),
        ("--to-current", [3, 4]),
        ("--to-datetime 2001-01-01T00:00:00Z", [0, 0]),
        ("--to-datetime 2999-01-01", [10, 4]),  # nothing is that late: the end
        ("--by-duration 30m", [10, 0]),
        ("--by-duration PT2H", [0, 0]),
    ],
)
def test_a_reset_shows_where_the_group_would_go_on(
    barnabas: Barnabas, group: str, topic: str, target: str, expected: list[int]
) -> None:
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0,1 {target} --json")
    assert new_offsets(done) == expected
    assert [each["current"] for each in done.json["partitions"]] == [3, 4]
    assert new_offsets(barnabas(f"groups reset-offsets {group} --all-topics {target} --json")) == expected
    assert not done.json["executed"]
    assert committed(barnabas, group) == [3, 4]


def committed(barnabas: Barnabas, group: str) -> list[int]:
    (described,) = barnabas(f"groups describe {group} --json").json
    return [each["committed"] for each in described["partitions"]]


def test_execute_does_it_and_says_so(barnabas: Barnabas, group: str, topic: str) -> None:
    shown = barnabas(f"groups reset-offsets {group} --topic {topic} --to-earliest")
    assert shown.err == "nothing was changed yet: --execute does it\n"
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TOPIC", "PARTITION", "CURRENT", "NEW", "LAG"],
        [topic, "0", "3", "0", "10"],
        [topic, "1", "4", "0", "4"],
        [topic, "2", "-", "0", "0"],
    ]
    done = barnabas(f"groups reset-offsets {group} --topic {topic} --to-earliest --execute")
    assert (done.status, done.out, done.err) == (0, shown.out, f"3 offsets of group {group} set\n")
    assert committed(barnabas, group) == [0, 0, 0]


def test_offsets_outside_the_log_are_brought_inside_with_a_note(barnabas: Barnabas, group: str, topic: str) -> None:
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0 --shift-by 50")
    assert f"note: {topic}-0: 53 is beyond the end of the log, so it is 10\n" in done.err
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0 --shift-by -50")
    assert f"note: {topic}-0: -47 is before the start of the log, so it is 0\n" in done.err
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0 --to-datetime 2999-01-01")
    assert f"note: {topic}-0: no record is from then or later, so it is the end\n" in done.err


def test_offsets_go_out_to_a_file_and_come_back(barnabas: Barnabas, group: str, topic: str, tmp_path: Any) -> None:
    exported = barnabas(f"groups reset-offsets {group} --all-topics --to-current --export")
    assert (exported.out, exported.err) == (f"{topic},0,3\n{topic},1,4\n", "")
    file = tmp_path / "offsets.csv"
    file.write_text(exported.out)
    barnabas(f"groups reset-offsets {group} --all-topics --to-earliest --execute")
    assert barnabas(f"groups reset-offsets {group} --from-file {file} --execute").status == 0
    assert committed(barnabas, group) == [3, 4]


def test_a_group_that_does_not_exist_is_made_and_the_near_name_is_said(
    barnabas: Barnabas, group: str, topic: str
) -> None:
    done = barnabas(f"groups reset-offsets {group}x --topic {topic} --to-latest --execute")
    assert f"note: group {group}x does not exist yet (did you mean {group}?): giving it offsets makes it\n" in done.err
    assert committed(barnabas, f"{group}x") == [10, 4, 0]


def test_a_group_with_members_keeps_its_offsets(barnabas: Barnabas, running: Running) -> None:
    for execute in ("", " --execute"):
        done = barnabas(f"groups reset-offsets {running.group} --topic {running.topic} --to-latest{execute}")
        assert (done.status, done.out) == (1, "")
        assert one_line(done.err)
        assert "cannot be reset while it is in use: it has 1 member, reader (127.0.0.1); stop them first" in done.err
    assert committed(barnabas, running.group) == [1, None]


# ---- delete


def test_a_group_is_deleted_with_its_offsets(barnabas: Barnabas, group: str) -> None:
    assert barnabas(f"groups delete {group}") == (0, f"group {group} deleted\n", "")
    assert group not in barnabas("groups list").out
    assert barnabas(f"groups describe {group}").status == 1


def test_offsets_of_a_topic_are_deleted(barnabas: Barnabas, group: str, topic: str) -> None:
    done = barnabas(f"groups delete {group} --topic {topic}:1")
    assert done == (0, f"group {group}: 1 offset of {topic} deleted\n", "")
    assert committed(barnabas, group) == [3]
    done = barnabas(f"groups delete {group} --topic {topic}:1")
    assert (done.status, done.err) == (1, f"barnabas: group {group} has no committed offsets of {topic}:1\n")


def test_a_group_in_use_is_not_deleted(barnabas: Barnabas, running: Running) -> None:
    done = barnabas(f"groups delete {running.group}")
    assert done.status == 1
    assert f"group {running.group} was not deleted: it has 1 member, reader (127.0.0.1)" in done.err
    assert "NON_EMPTY_GROUP" in done.err
    done = barnabas(f"groups delete {running.group} --topic {running.topic}")
    assert done.status == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in done.err
    assert one_line(done.err)
    assert committed(barnabas, running.group) == [1, None]


def test_what_can_be_deleted_is_whatever_is_wrong_with_the_rest(barnabas: Barnabas, group: str) -> None:
    done = barnabas(f"groups delete missing-1 {group} missing-2")
    assert (done.status, done.out) == (1, f"group {group} deleted\n")
    assert [line.split()[2] for line in done.err.splitlines()] == ["missing-1", "missing-2"]
    done = barnabas(f"groups delete {group} --json")
    assert (done.status, done.out) == (1, "")


# ---- what makes no sense


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("describe nope", "group nope does not exist"),
        ("members nope", "group nope does not exist"),
        ("lag nope", "group nope does not exist"),
        ("delete nope", "group nope does not exist"),
        ("delete nope --topic t", "group nope does not exist"),
        ("describe {group}x", "(did you mean {group}?)"),
        ("reset-offsets {group}x --all-topics --to-latest", "(did you mean {group}?)"),
        ("reset-offsets {group} --topic nope --to-latest", "topic nope does not exist"),
        ("reset-offsets {group} --topic {topic}:7 --to-latest", "has no partition 7: it has 3"),
        ("reset-offsets {group} --topic {topic} --shift-by 1", "no committed offset to shift in {topic}-2"),
        ("reset-offsets {group} --from-file missing.csv --execute", "missing.csv: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(barnabas: Barnabas, group: str, topic: str, line: str, complaint: str) -> None:
    done = barnabas("groups " + line.format(group=group, topic=topic))
    assert (done.status, done.out) == (1, "")
    assert complaint.format(group=group, topic=topic) in done.err
    assert one_line(done.err)
    assert committed(barnabas, group) == [3, 4]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("describe", "name a group, or give --all"),
        ("lag --all g", "name groups or give --all, not both"),
        ("lag g --watch=0", "must be a number of seconds"),
        ("list --state sleepy", "must be one of PreparingRebalance,"),
        ("reset-offsets g --topic t", "say where to: one of --to-earliest,"),
        ("reset-offsets g --to-latest", "say which topics"),
        ("reset-offsets g --topic t --to-latest --to-earliest", "--to-earliest and --to-latest exclude each other"),
        ("reset-offsets g --topic t --all-topics --to-latest", "--topic and --all-topics exclude each other"),
        ("reset-offsets g --topic t --from-file f", "--from-file names the topics itself"),
        ("reset-offsets g --topic t --to-latest --execute --dry-run", "--execute and --dry-run exclude each other"),
        ("reset-offsets g --topic t --to-latest --export --json", "--export and --json exclude each other"),
        ("reset-offsets g --topic t:x --to-latest", "must be a topic, or a topic and its partitions"),
        ("reset-offsets g --topic t --shift-by x", "must be a whole number, negative to go back"),
        ("delete", "GROUP... is missing"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(barnabas: Barnabas, line: str, complaint: str) -> None:
    done = barnabas("groups " + line)
    assert (done.status, done.out) == (2, "")
    assert complaint in done.err
    assert one_line(done.err)
