"""What only the Java clients show: fenced members, offsets that are not stable yet, empty transactions, fencing by an
administrator, an upgrade under a living producer, and a transaction that another process ends, as with Flink."""

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers
from compat_tests.harness.clients import CLIENTS
from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.groups import Group, Kind, classic, eventually, new_protocol
from compat_tests.harness.transactions import READ_COMMITTED, Speaker, Transactional, stable_end
from compat_tests.transactions.conftest import FEATURES_TOOL, Stage

JAVA = [client for client in CLIENTS if client.name.startswith("java-")]
SPEAKERS = [Speaker(client.name, version) for client in JAVA for version in range(1, client.transactions_version + 1)]
everybody = pytest.mark.parametrize("speaker", SPEAKERS, ids=str)


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@everybody
@pytest.mark.parametrize("commits", [True, False])
def test_an_empty_transaction_ends_and_the_next_one_begins(stage: Stage, speaker: Speaker, commits: bool) -> None:
    producer = stage.producer()
    for number in range(2):
        producer.begin()
        (producer.commit if commits else producer.abort)()
        producer.committed(stage.name, Record(value=b"%d" % number))
    assert values(stage.driver.consume(stage.name, 2, isolation=READ_COMMITTED)) == [b"0", b"1"]


@everybody
def test_a_transaction_of_nothing_but_offsets_commits_them(stage: Stage, speaker: Speaker) -> None:
    producer, group = stage.producer(), f"{stage.name}-group"
    producer.begin()
    producer.send_offsets(group, {(stage.name, 0): 7})
    producer.commit()

    def committed() -> list[int]:
        return [found["offset"] for found in stage.admin.ask("group_offsets", group=group)["offsets"]]

    eventually(lambda: committed() == [7], "the offset is committed", committed)


KINDS = {"classic": classic("java-4.3", "range"), "consumer protocol": new_protocol("java-4.3")}


@everybody
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_member_of_an_older_generation_cannot_send_offsets(stage: Stage, speaker: Speaker, kind: Kind) -> None:
    group = Group(lambda _: stage.admin, f"{stage.name}-group")
    member = group.join(kind, stage.name, commits=False)
    (state,) = group.wait_until_shared(stage.name, partitions=1)
    identity = {"member_id": state["member_id"], "generation": state["generation"]}
    producer, offsets = stage.producer(), {(stage.name, 0): 1}
    producer.begin()
    producer.send(stage.name, [Record(value=b"of the past")])
    with pytest.raises(DriverError):
        producer.send_offsets(group.name, offsets, {**identity, "generation": state["generation"] - 1})
    producer.abort()
    producer.begin()
    producer.send(stage.name, [Record(value=b"of today")])
    producer.send_offsets(group.name, offsets, identity)
    producer.commit()
    assert values(stage.driver.consume(stage.name, 1, isolation=READ_COMMITTED)) == [b"of today"]
    eventually(lambda: group.committed(stage.admin) == {(stage.name, 0): 1}, "the offset is committed")
    member.leave()


@everybody
def test_offsets_of_an_open_transaction_are_waited_for(stage: Stage, speaker: Speaker) -> None:
    producer, group = stage.producer(), Group(lambda _: stage.admin, f"{stage.name}-group")
    producer.begin()
    producer.send_offsets(group.name, {(stage.name, 0): 1})
    settings = {"default.api.timeout.ms": 2_000, "request.timeout.ms": 1_500}
    waiting = group.join(classic("java-4.3", "range"), assign=[("elsewhere", 0)], commits=False, settings=settings)
    with pytest.raises(DriverError, match=r"TimeoutException"):
        waiting.committed((stage.name, 0))
    assert group.committed(stage.admin) == {}  # an administrator does not wait
    producer.commit()

    (committed,) = waiting.committed((stage.name, 0))
    assert committed is not None
    assert committed["offset"] == 1
    group.leave()


@everybody
def test_an_administrator_fences_a_producer(stage: Stage, speaker: Speaker) -> None:
    producer, topic = stage.producer(), stage.name
    producer.begin()
    producer.send(topic, [Record(value=b"fenced")])
    stage.admin.ask("fence_producer", transactional_id=stage.name)
    with pytest.raises(DriverError):
        producer.commit()
    stage.producer().committed(topic, Record(value=b"next"))
    assert values(stage.driver.consume(topic, 1, isolation=READ_COMMITTED)) == [b"next"]


class Checkpointed:
    """A transaction that was left open after a checkpoint, and what the checkpoint knows of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.left = stage.producer()
        self.left.begin()
        self.left.send(stage.name, [Record(value=b"kept")])
        self.identity: dict[str, Any] = stage.driver.ask("transactional_identity", name=self.left.name)

    def resumed(self, driver: Driver | None = None) -> Transactional:
        """Returns a producer that takes up the transaction without asking for an identity of its own."""
        name = f"{self.stage.name}-{len(self.stage.producers)}"
        producer = object.__new__(Transactional)
        producer.driver, producer.name = driver or self.stage.driver, name
        self.stage.producers.append(producer)
        identity = {"transactional_id": self.stage.name, "settings": {}, **self.identity}
        producer.driver.ask("resume_transaction", name=name, **identity)
        return producer


@everybody
def test_a_transaction_is_committed_by_a_producer_that_never_began_it(stage: Stage, speaker: Speaker) -> None:
    checkpointed = Checkpointed(stage)
    checkpointed.resumed().commit()
    assert values(stage.driver.consume(stage.name, 1, isolation=READ_COMMITTED)) == [b"kept"]
    stage.producer().committed(stage.name, Record(value=b"next"))
    assert values(stage.driver.consume(stage.name, 2, isolation=READ_COMMITTED)) == [b"kept", b"next"]


@everybody
def test_a_transaction_that_was_replaced_cannot_be_committed_any_more(stage: Stage, speaker: Speaker) -> None:
    checkpointed = Checkpointed(stage)
    stage.producer().committed(stage.name, Record(value=b"next"))
    with pytest.raises(DriverError):
        checkpointed.resumed().commit()
    assert values(stage.driver.consume(stage.name, 1, isolation=READ_COMMITTED)) == [b"next"]


@pytest.mark.parametrize("client", ["java-4.3", "java-4.4"])
def test_a_producer_goes_on_while_the_cluster_is_upgraded(
    client: str, speaking: Callable[[str, int], Driver], broker_of_version_1: Broker, drivers: Drivers
) -> None:
    driver, topic = speaking(client, 1), f"upgraded-{client}"
    tools = drivers["java-4.3"]

    def change(how: str, version: int) -> None:
        where = ["--bootstrap-server", broker_of_version_1.bootstrap]
        arguments = [*where, how, "--feature", f"transaction.version={version}"]
        done = tools.ask("tool", tool=FEATURES_TOOL, arguments=arguments)
        assert done["code"] == 0, done

    driver.ask("create_topic", topic=topic, partitions=1, configs={})
    producer = Transactional(driver, topic, topic)
    producer.committed(topic, Record(value=b"old"))
    producer.begin()
    producer.send(topic, [Record(value=b"across")])
    change("upgrade", 2)
    try:
        producer.send(topic, [Record(value=b"the upgrade")])
        producer.commit()
        producer.aborted(topic, Record(value=b"aborted"))
        producer.committed(topic, Record(value=b"new"))
    finally:
        change("downgrade", 1)
    producer.committed(topic, Record(value=b"old again"))
    wanted = [b"old", b"across", b"the upgrade", b"new", b"old again"]
    assert values(driver.consume(topic, 5, isolation=READ_COMMITTED)) == wanted
    assert stable_end(driver, topic) == driver.offsets(topic)["end"]
    producer.drop()
