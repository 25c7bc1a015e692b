"""`barnabas groups` list, describe, members and lag against a real broker, with real consumers as members."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.__main__ import main
from barnabas.testing import Broker
from tests.barnabas.groups.cluster import Barnabas, Running, make_topic, new_name, produce
from tests.barnabas.processes import TIMEOUT_S

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
