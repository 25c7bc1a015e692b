"""`barnabas transactions` and what other commands say of transactions, against a real broker and real producers."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.testing import Broker
from tests.barnabas.groups.cluster import Barnabas
from tests.barnabas.processes import TIMEOUT_S
from tests.barnabas.transactions.conftest import new_producer, send

# ---- list and describe


def test_an_open_transaction_is_listed_and_described(
    barnabas: Barnabas, producer: Producer, topic: str, transactional_id: str
) -> None:
    send(producer, topic)
    (listed,) = barnabas(f"transactions list --pattern {transactional_id} --json").json
    assert (listed["transactional_id"], listed["state"]) == (transactional_id, "Ongoing")
    (described,) = barnabas(f"transactions describe {transactional_id} --json").json
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert described["partitions"] == {topic: [0]}
    assert described["producer_id"] == listed["producer_id"]
    title, facts, place = barnabas(f"transactions describe {transactional_id}").out.splitlines()
    assert title.startswith(f"{transactional_id}  (Ongoing since 20")
    assert f"producer id: {listed['producer_id']}, epoch: 0, timeout: 1m 0s, coordinator: node" in facts
    assert place == f"{topic}:0"
    producer.commit_transaction(TIMEOUT_S)
    (described,) = barnabas(f"transactions describe {transactional_id} --json").json
    assert (described["state"], described["partitions"]) == ("CompleteCommit", {})
    assert barnabas(f"transactions describe {transactional_id}").out.startswith(f"{transactional_id}  (CompleteCommit)")


@pytest.mark.parametrize(
    ("options", "is_listed"),
    [
        ("--state ongoing", True),
        ("--state Empty --state ongoing", True),
        ("--state CompleteCommit", False),
        ("--longer-than 1h", False),
        ("--longer-than 1h --state ongoing", False),
        ("--producer-id 999999", False),
    ],
)
def test_lists_are_filtered(
    barnabas: Barnabas, producer: Producer, topic: str, transactional_id: str, options: str, is_listed: bool
) -> None:
    send(producer, topic)
    done = barnabas(f"transactions list --pattern {transactional_id} {options}")
    assert (transactional_id in done.out) == is_listed
    assert (done.err == "no transaction is like that\n") != is_listed
    producer.abort_transaction(TIMEOUT_S)


def test_what_is_not_there_is_said_with_what_may_have_been_meant(
    barnabas: Barnabas, producer: Producer, topic: str, transactional_id: str
) -> None:
    send(producer, topic)
    done = barnabas(f"transactions describe {transactional_id}x")
    assert done.status == 1
    assert f"(did you mean {transactional_id}?)" in done.err
    assert "`barnabas transactions list`" in done.err
    done = barnabas("transactions list --pattern [")
    assert (done.status, "INVALID_REGULAR_EXPRESSION" in done.err) == (1, True)
    assert "must be one of Empty, Ongoing" in barnabas("transactions list --state running").err
    producer.abort_transaction(TIMEOUT_S)


def test_a_broker_without_transactions_says_so(barnabas: Barnabas, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        assert barnabas("transactions list") == (0, "", "there are no transactions\n")
        assert barnabas("transactions list --json").json == []
        assert barnabas("transactions find-hanging") == (0, "", "no transaction hangs in 0 partitions\n")


# ---- abort


def test_a_transaction_is_aborted_everywhere_and_its_producer_fenced(
    barnabas: Barnabas, producer: Producer, topic: str, transactional_id: str
) -> None:
    send(producer, topic, 0)
    send(producer, topic, 1)
    done = barnabas(f"transactions abort {transactional_id}")
    assert done.out.startswith(f"transaction of {transactional_id} aborted in 2 partitions, producer ")
    assert barnabas(f"consume {topic} --isolation read_committed") == (0, "", "")
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    again = barnabas(f"transactions abort {transactional_id}")
    assert (again.status, "has no open transaction: it is Empty" in again.err) == (1, True), again.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("transactions abort", "name a transactional id, or a partition"),
        ("transactions abort x --topic orders:0 --start-offset 1", "name a transactional id, or a partition"),
        ("transactions abort --topic orders:0", "belong together"),
        ("transactions abort --topic orders --start-offset 1", "name one partition, as in orders:0"),
        ("transactions abort --topic orders:0,1 --start-offset 1", "name one partition, as in orders:0"),
    ],
)
def test_what_is_to_be_aborted_must_be_clear(barnabas: Barnabas, line: str, says: str) -> None:
    done = barnabas(line)
    assert done.status == 2
    assert says in done.err


def test_a_transaction_that_its_coordinator_knows_is_not_aborted_in_one_partition(
    barnabas: Barnabas, producer: Producer, topic: str, transactional_id: str
) -> None:
    send(producer, topic)
    done = barnabas(f"transactions abort --topic {topic}:0 --start-offset 0")
    assert done.status == 1
    assert (
        f"does not hang: it is the open one of {transactional_id}; `barnabas transactions abort {transactional_id}`"
        in done.err
    )
    done = barnabas(f"transactions abort --topic {topic}:0 --start-offset 1")
    assert f"{topic}-0 has no open transaction that began at offset 1" in done.err
    assert barnabas(f"transactions abort --topic {topic}:7 --start-offset 0").status == 1
    producer.commit_transaction(TIMEOUT_S)


# ---- time


def test_a_transaction_that_takes_too_long_is_aborted(barnabas: Barnabas, broker: Broker, topic: str) -> None:
    producer = new_producer(broker, f"slow-{topic}", 60_000)
    producer.begin_transaction()
    send(producer, topic)
    broker.advance(50)
    assert barnabas(f"transactions describe slow-{topic} --json").json[0]["state"] == "Ongoing"
    broker.advance(20)
    assert barnabas(f"transactions describe slow-{topic} --json").json[0]["state"] == "CompleteAbort"
    assert barnabas(f"consume {topic} --isolation read_committed") == (0, "", "")
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)


# ---- groups that wait


def test_lag_says_which_transaction_readers_of_committed_records_wait_for(
    barnabas: Barnabas, producer: Producer, topic: str, transactional_id: str
) -> None:
    group = f"readers-{topic}"
    assert barnabas(f"groups reset-offsets {group} --topic {topic} --to-earliest --execute").status == 0
    (shown,) = barnabas(f"groups lag {group} --json").json
    assert [each["waits_for"] for each in shown["partitions"]] == [None, None]
    send(producer, topic, 1)
    (shown,) = barnabas(f"groups lag {group} --json").json
    assert shown["partitions"][0]["waits_for"] is None
    waits = shown["partitions"][1]["waits_for"]
    assert (waits["last_stable_offset"], waits["is_unstable"], waits["unstable_by"]) == (0, False, [])
    assert waits["stopped_by"]["transactional_id"] == transactional_id
    *_, line = barnabas(f"groups lag {group}").out.splitlines()
    start = f"{topic}-1: consumers of committed records stop at offset 0 until the end of the transaction of "
    assert line.startswith(f"{start}{transactional_id} (producer id ")
    producer.commit_transaction(TIMEOUT_S)
    assert barnabas(f"groups lag {group} --json").json[0]["partitions"][1]["waits_for"] is None


def test_lag_says_which_transaction_holds_the_offsets_of_a_group(
    barnabas: Barnabas, broker: Broker, producer: Producer, topic: str, transactional_id: str
) -> None:
    group = f"copiers-{topic}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 0)], consumer.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    send(producer, topic, 1)
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), TIMEOUT_S)
    (shown,) = barnabas(f"groups lag {group} --json").json
    (partition,) = shown["partitions"]
    assert partition["committed"] == 0
    waits = partition["waits_for"]
    assert (waits["last_stable_offset"], waits["stopped_by"], waits["is_unstable"]) == (None, None, True)
    assert [each["transactional_id"] for each in waits["unstable_by"]] == [transactional_id]
    *_, line = barnabas(f"groups lag {group}").out.splitlines()
    start = f"{topic}-0: consumers that ask for the committed offset wait for the end of the transaction of "
    assert line.startswith(f"{start}{transactional_id} (producer id ")
    done = barnabas(f"consume {topic} --group {group} --timeout 0.5")
    assert (done.status, "UNSTABLE_OFFSET_COMMIT" in done.err) == (1, True), "it would read again what may be committed"
    assert "`barnabas groups lag` says which one" in done.err
    producer.commit_transaction(TIMEOUT_S)
    (shown,) = barnabas(f"groups lag {group} --json").json
    assert [(each["committed"], each["waits_for"]) for each in shown["partitions"]] == [(1, None)]
    consumer.close()
