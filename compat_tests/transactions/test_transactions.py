"""What every client does with transactions, by the rules that it knows: those of version 1, which it keeps with any
broker, or those of version 2, which it keeps where the cluster has them."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from compat_tests.harness.driver import DriverError, Record
from compat_tests.harness.features import COPIES, TRANSACTIONAL_OFFSETS, TRANSACTIONS, TRANSACTIONS_GO_ON
from compat_tests.harness.groups import eventually
from compat_tests.harness.transactions import READ_COMMITTED, Speaker, Transactional, speakers, stable_end
from compat_tests.transactions.conftest import Stage

SPEAKERS = speakers(TRANSACTIONS)
PARTITIONS = 3
everybody = pytest.mark.parametrize("speaker", SPEAKERS, ids=str)


def numbered(what: str, count: int, partition: int = 0) -> list[Record]:
    return [Record(value=f"{what} {number}".encode(), partition=partition) for number in range(count)]


def values(records: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def persistently(producer: Transactional, topic: str, records: list[Record], attempts: int = 3) -> None:
    """Writes these in a transaction, as an application does: one that fails is aborted and made again."""
    for _ in range(attempts - 1):
        try:
            producer.committed(topic, *records)
        except DriverError:
            producer.abort()
        else:
            return
    producer.committed(topic, *records)


@everybody
def test_what_was_aborted_is_read_only_by_those_who_read_everything(stage: Stage, speaker: Speaker) -> None:
    producer, topic = stage.producer(), stage.name
    producer.aborted(topic, *numbered("aborted first", 3))
    producer.committed(topic, *numbered("committed", 3))
    producer.aborted(topic, *numbered("aborted then", 3))
    producer.aborted(topic, *numbered("aborted again", 3))
    stage.driver.produce(topic, [Record(value=b"outside")])
    producer.committed(topic, Record(value=b"last"))
    wanted = ["committed 0", "committed 1", "committed 2", "outside", "last"]
    for reader in (stage.driver, stage.admin):
        assert values(reader.consume(topic, 5, isolation=READ_COMMITTED)) == wanted
        assert len(reader.consume(topic, 14)) == 14


@everybody
def test_a_transaction_is_committed_in_all_its_partitions_or_in_none(stage: Stage, speaker: Speaker) -> None:
    producer, topic = stage.producer(), f"{stage.name}-many"
    stage.create_topic(topic, PARTITIONS)
    for what, end in (("aborted", producer.abort), ("committed", producer.commit)):
        producer.begin()
        for _ in range(2):
            producer.send(topic, [record for number in range(PARTITIONS) for record in numbered(what, 2, number)])
        end()
    read = stage.driver.consume(topic, 4 * PARTITIONS, partitions=range(PARTITIONS), isolation=READ_COMMITTED)
    assert values(read) == ["committed 0", "committed 1"] * 2 * PARTITIONS


@everybody
def test_an_open_transaction_holds_back_what_comes_after_it(stage: Stage, speaker: Speaker) -> None:
    producer, topic = stage.producer(), stage.name
    producer.begin()
    producer.send(topic, numbered("in", 2))
    stage.admin.produce(topic, numbered("after", 2))
    assert len(stage.driver.consume(topic, 4)) == 4
    assert stable_end(stage.admin, topic) == 0
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(stage.reader.consume, topic, 4, isolation=READ_COMMITTED)
        producer.commit()
        assert values(waiting.result()) == ["in 0", "in 1", "after 0", "after 1"]
    eventually(lambda: stable_end(stage.admin, topic) == 5, "the end is that of everything")


@everybody
def test_a_second_instance_fences_the_first_and_aborts_what_it_left_open(stage: Stage, speaker: Speaker) -> None:
    first, topic = stage.producer(), stage.name
    first.begin()
    first.send(topic, numbered("first", 2))
    second = stage.producer()
    second.committed(topic, *numbered("second", 2))
    with pytest.raises(DriverError):
        first.commit()
    second.committed(topic, *numbered("second, again", 1))
    wanted = ["second 0", "second 1", "second, again 0"]
    assert values(stage.driver.consume(topic, 3, isolation=READ_COMMITTED)) == wanted


@everybody
def test_a_transaction_that_takes_too_long_is_aborted(stage: Stage, speaker: Speaker) -> None:
    producer, topic = stage.producer(transaction_timeout_ms=1_000), stage.name
    producer.begin()
    producer.send(topic, numbered("late", 2))
    stage.admin.produce(topic, numbered("after", 1))
    assert values(stage.driver.consume(topic, 1, isolation=READ_COMMITTED)) == ["after 0"]
    with pytest.raises(DriverError):
        producer.commit()
    stage.producer().committed(topic, *numbered("another", 1))
    assert values(stage.driver.consume(topic, 2, isolation=READ_COMMITTED)) == ["after 0", "another 0"]


@pytest.mark.parametrize("speaker", speakers(TRANSACTIONS_GO_ON), ids=str)
def test_a_producer_goes_on_after_a_batch_that_was_refused(stage: Stage, speaker: Speaker) -> None:
    topic = f"{stage.name}-small"
    stage.create_topic(topic, max_message_bytes="1000")
    producer = stage.producer()
    producer.begin()
    producer.send(topic, numbered("before", 2))
    with pytest.raises(DriverError, match=r"(?i)too.?large"):
        producer.send(topic, [Record(value=Random(1).randbytes(5_000))])  # which no client makes smaller
    producer.abort()
    for number in range(2):
        persistently(producer, topic, numbered(f"afterwards {number}", 2))
    wanted = ["afterwards 0 0", "afterwards 0 1", "afterwards 1 0", "afterwards 1 1"]
    assert values(stage.driver.consume(topic, 4, isolation=READ_COMMITTED)) == wanted


@pytest.mark.parametrize("speaker", speakers(TRANSACTIONAL_OFFSETS), ids=str)
def test_offsets_are_committed_with_their_transaction(stage: Stage, speaker: Speaker) -> None:
    producer, group, partition = stage.producer(), f"{stage.name}-group", (stage.name, 0)

    def committed() -> list[int]:
        return [found["offset"] for found in stage.admin.ask("group_offsets", group=group)["offsets"]]

    def transaction(offset: int) -> Transactional:
        producer.begin()
        producer.send(stage.name, numbered("with offsets", 1))
        producer.send_offsets(group, {partition: offset})
        return producer

    transaction(1).abort()
    assert committed() == []
    transaction(2).commit()
    eventually(lambda: committed() == [2], "the offset is committed", committed)
    transaction(3).abort()
    transaction(4).commit()
    eventually(lambda: committed() == [4], "the next one is committed", committed)


@pytest.mark.parametrize("speaker", speakers(COPIES), ids=str)
def test_a_copy_is_exact_although_some_transactions_are_aborted(stage: Stage, speaker: Speaker) -> None:
    source, target, count = f"{stage.name}-source", f"{stage.name}-target", 60
    for topic in (source, target):
        stage.create_topic(topic, PARTITIONS)
    original = [record for number in range(PARTITIONS) for record in numbered("copied", count // PARTITIONS, number)]
    stage.admin.produce(source, original)
    asked = {"transactional_id": stage.name, "settings": {}, "group": f"{stage.name}-group"}
    options = {"count": count, "per_transaction": 7, "abort_every": 3}
    answer = stage.driver.ask("copy", source=source, target=target, **asked, **options)
    assert answer["copied"] == count
    assert answer["transactions"] > 3
    read = stage.driver.consume(target, count, partitions=range(PARTITIONS), isolation=READ_COMMITTED)
    assert values(read) == values(original)
    found = stage.admin.ask("group_offsets", group=asked["group"])["offsets"]
    assert {(offset["partition"], offset["offset"]) for offset in found} == {
        (number, count // PARTITIONS) for number in range(PARTITIONS)
    }
