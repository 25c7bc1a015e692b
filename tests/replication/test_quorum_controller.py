import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.stored.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.replication.metadata.batches import record_batches
from barnabas.replication.metadata.snapshots import list_snapshots, write_snapshot
from tests.replication.clusters import new_topic, registration, uuid
from tests.replication.quorums import Quorum, error_code, log_text

FILES = OsFiles()

Start: TypeAlias = Callable[..., Quorum]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def start(path: str) -> Start:
    """Starts the quorum on the same directory; what ran there before is given up as a killed process gives it up."""
    running: list[Quorum] = []

    def start_again(**settings: int) -> Quorum:
        for quorum in running:
            quorum.logs.abandon()
        running.append(Quorum(FILES, path, environment=None, **settings))
        return running[-1]

    return start_again


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=uuid(number))


def config(number: int, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=f"topic-{number}", name="retention.ms", value=value)


def test_a_new_cluster_begins_with_its_leader_and_its_metadata_version(start: Start) -> None:
    quorum = start().lead()
    assert log_text(quorum) == [(0, 3, 1, True), (3, 5, 1, False)]
    image = quorum.image
    assert (image.epoch, image.controller_id, image.features["metadata.version"], image.end_offset) == (1, 1, 30, 8)


def test_every_start_is_a_new_epoch_and_finds_what_was_committed(start: Start) -> None:
    quorum = start().lead()
    quorum.append(topic(1), config(1, "5"))
    quorum.append(topic(2))
    quorum.stop()
    again = start()
    assert again.found() == quorum.image._replace(controller_id=-1)
    again.lead()
    assert (again.epoch, again.image.epoch) == (3, 3)
    assert set(again.image.topics) == {"topic-1", "topic-2"}
    assert log_text(again)[-1] == (11, 1, 3, True)  # the leader change, and no second metadata.version


def test_nothing_is_published_before_it_is_on_disk_but_the_next_decision_sees_it(start: Start) -> None:
    quorum = start().lead()
    before = quorum.image
    kept: list[str] = []
    quorum.controller.append([topic(1)]).when_done(lambda _: kept.append("first"))
    quorum.controller.append([topic(2)]).when_done(lambda _: kept.append("second"))
    assert set(quorum.appended_image.topics) == {"topic-1", "topic-2"}
    assert (quorum.image, kept, len(quorum.commits)) == (before, [], 2)  # two of the start
    quorum.run()
    assert kept == ["first", "second"]
    assert quorum.image is quorum.appended_image
    assert [[created.name for created in changes.created_topics] for _, changes in quorum.commits[2:]] == [
        ["topic-1"],
        ["topic-2"],
    ]


def test_an_answer_comes_after_its_own_image_and_before_the_next(start: Start) -> None:
    quorum = start().lead()
    seen: list[set[str]] = []
    for number in (1, 2):
        quorum.controller.append([topic(number)]).when_done(lambda _: seen.append(set(quorum.image.topics)))
    quorum.run()
    assert seen == [{"topic-1"}, {"topic-1", "topic-2"}]


def test_appends_of_one_turn_share_one_fsync(start: Start) -> None:
    quorum = start().lead()
    for number in range(50):
        quorum.controller.append([topic(number)])
    quorum.clock.turn()
    assert len(quorum.workers.jobs) == 1
    quorum.workers.do()
    assert len(quorum.image.topics) == 50
    assert not quorum.workers.jobs


def test_two_requests_for_one_topic_create_it_once_and_answer_in_order(start: Start) -> None:
    quorum = start().lead()
    register(quorum)
    answers = [quorum.submit(CreateTopicsRequest(topics=[new_topic("orders")])) for _ in range(2)]
    assert not any(answer.done for answer in answers), "the second needs no records, but says what the first will do"
    quorum.run()
    codes = [ErrorCode(answer.value.topics[0].error_code) for answer in answers]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


def register(quorum: Quorum) -> None:
    """Broker 1, active."""
    registered = quorum.submit(registration(1))
    quorum.run()
    epoch = registered.value.broker_epoch
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch, want_fence=False, want_shut_down=False
    )
    answer = quorum.submit(heartbeat)
    quorum.run()
    assert (answer.value.is_fenced, quorum.image.brokers[1].is_active) == (False, True)


def test_a_decision_without_records_is_answered_at_once_when_nothing_is_pending(start: Start) -> None:
    quorum = start().lead()
    assert quorum.controller.append([]).done


def test_a_refusal_is_handed_to_the_one_who_asked(start: Start) -> None:
    quorum = start().lead()
    refused = quorum.submit(AllocateProducerIdsRequest(broker_id=9, broker_epoch=9))
    assert error_code(refused) == ErrorCode.STALE_BROKER_EPOCH


def test_a_record_that_cannot_be_replayed_is_never_written(start: Start) -> None:
    quorum = start().lead()
    end_offset = quorum.log.log_end_offset
    with pytest.raises(AssertionError):
        quorum.controller.append([topic(1), RemoveTopicRecord(topic_id=uuid(9))])
    assert quorum.log.log_end_offset == end_offset
    assert quorum.appended_image.topics == {}


# ---- leadership


def test_nobody_decides_without_leading(start: Start) -> None:
    quorum = start()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
    assert error_code(quorum.submit(request)) == ErrorCode.NOT_CONTROLLER
    assert error_code(quorum.controller.append([topic(1)])) == ErrorCode.NOT_CONTROLLER
    assert quorum.log.log_end_offset == 0


def test_a_leader_that_is_deposed_answers_not_controller_and_publishes_nothing_more(start: Start) -> None:
    quorum = start().lead()
    before = quorum.image
    answers = [quorum.controller.append([topic(1)]), quorum.controller.append([])]
    quorum.depose()
    quorum.run()  # the fsync that was under way comes to its end
    assert [error_code(answer) for answer in answers] == [ErrorCode.NOT_CONTROLLER] * 2
    assert quorum.image is before
    assert error_code(quorum.controller.append([topic(2)])) == ErrorCode.NOT_CONTROLLER


def test_what_a_leader_left_in_the_log_is_committed_by_the_next_epoch(start: Start) -> None:
    quorum = start().lead()
    quorum.controller.append([topic(1)])
    quorum.depose()
    quorum.run()
    quorum.lead_again()
    assert (quorum.image.epoch, set(quorum.image.topics)) == (quorum.epoch, {"topic-1"})
    quorum.append(topic(2))
    assert start().found().topics == quorum.image.topics


def test_those_who_ask_hear_of_every_change_of_the_controller(start: Start) -> None:
    quorum = start()
    heard: list[bool] = []
    quorum.controller.on_change(lambda: heard.append(quorum.controller.is_active))
    quorum.lead()
    quorum.depose()
    quorum.run()
    assert (heard[-2:], True in heard) == ([True, False], True)


def test_what_is_too_large_for_a_batch_is_a_transaction(start: Start) -> None:
    quorum = start(batch_bytes_max=500).lead()
    quorum.append(*map(topic, range(40)))
    assert len(log_text(quorum)) > 4
    again = start()
    assert again.found().topics == quorum.image.topics
    assert len(again.found().topics) == 40


def test_a_transaction_that_never_ended_is_aborted_by_the_next_leader(start: Start) -> None:
    quorum = start().lead()
    for batch in record_batches([BeginTransactionRecord(name="x"), topic(1)], now_ms=5):
        quorum.log.append_as_coordinator(memoryview(batch), leader_epoch=1, now_ms=5)
    quorum.log.flush()
    quorum.run()
    again = start()
    assert again.found().topics == {}
    again.lead().append(topic(2))
    last = start()
    assert set(last.found().topics) == {"topic-2"}
    assert log_text(last)[-3:] == [(10, 1, 3, True), (11, 1, 3, False), (12, 1, 3, False)]  # leads, aborts, goes on


# ---- snapshots


def snapshot_ids(quorum: Quorum) -> list[tuple[int, int]]:
    return [(snapshot_id.end_offset, snapshot_id.epoch) for snapshot_id in list_snapshots(FILES, quorum.log.path)]


def grown(start: Start, topics: int) -> Quorum:
    """With a snapshot after each topic."""
    quorum = start().lead()
    for number in range(topics):
        quorum.append(topic(number))
        quorum.controller.snapshotter.take()
        quorum.run()
    return quorum


def test_a_snapshot_is_taken_after_so_many_bytes(start: Start) -> None:
    quorum = start(max_record_bytes_between_snapshots=1000).lead()
    numbers = iter(range(100))
    while not snapshot_ids(quorum):
        quorum.append(topic(next(numbers)))
    assert 5 < next(numbers) < 20
    assert snapshot_ids(quorum) == [(quorum.image.end_offset, 1)]


def test_a_snapshot_is_taken_after_so_much_time_if_anything_is_new(start: Start) -> None:
    quorum = start(max_snapshot_interval_ms=60_000).lead()
    quorum.append(topic(1))
    quorum.clock.advance(59_999)
    quorum.run()
    assert snapshot_ids(quorum) == []
    quorum.clock.advance(1)
    quorum.run()
    assert snapshot_ids(quorum) == [(9, 1)]
    quorum.clock.advance(600_000)
    quorum.run()
    assert snapshot_ids(quorum) == [(9, 1)]  # nothing happened since


def test_two_snapshots_are_kept_and_the_log_from_the_older_one_on(start: Start) -> None:
    quorum = grown(start, 4)
    assert snapshot_ids(quorum) == [(11, 1), (12, 1)]
    assert quorum.log.log_start_offset == 11
    assert quorum.log.segments[0].base_offset == 11


def test_the_first_snapshot_leaves_the_log_whole(start: Start) -> None:
    quorum = grown(start, 1)
    assert (snapshot_ids(quorum), quorum.log.log_start_offset) == ([(9, 1)], 0)


def test_a_start_reads_the_latest_snapshot_and_the_log_behind_it(start: Start) -> None:
    quorum = grown(start, 3)
    quorum.append(config(1, "5"))
    again = start()
    assert again.found() == quorum.image._replace(controller_id=-1)
    again.lead()
    assert again.epoch == 3


def test_a_log_of_an_older_epoch_gives_way_to_a_snapshot_that_was_fetched_since(start: Start) -> None:
    """It was killed before the snapshot took the log's place: what the log has beyond it is of another history."""
    quorum = grown(start, 3)
    path, image = quorum.log.path, quorum.image._replace(epoch=7, end_offset=quorum.log.log_end_offset - 1)
    for snapshot in list_snapshots(FILES, path):
        FILES.remove(f"{path}/{snapshot.file_name}")
    write_snapshot(FILES, path, image, (), now_ms=0)
    again = start()
    assert (again.log.log_start_offset, again.log.log_end_offset) == (image.end_offset, image.end_offset)
    assert again.found().topics == image.topics


def test_lost_metadata_stop_the_start(start: Start) -> None:
    quorum = grown(start, 4)
    for snapshot_id in list_snapshots(FILES, quorum.log.path):
        os.unlink(f"{quorum.log.path}/{snapshot_id.file_name}")
    with pytest.raises(KafkaStorageError, match="lost"):
        start()


def test_a_snapshot_that_was_not_finished_is_swept_away(start: Start) -> None:
    quorum = grown(start, 1)
    part = f"{quorum.log.path}/00000000000000000009-0000000001.checkpoint.part"
    with open(part, "wb") as file:
        file.write(b"half")
    start()
    assert not os.path.exists(part)


def test_a_log_that_ends_before_its_snapshot_goes_on_behind_it(start: Start) -> None:
    quorum = grown(start, 2)
    quorum.stop()
    for name in os.listdir(quorum.log.path):
        if not name.endswith(".checkpoint"):
            os.unlink(f"{quorum.log.path}/{name}")
    again = start()
    assert again.image.topics == quorum.image.topics
    again.lead().append(topic(9))
    assert set(again.image.topics) == {"topic-0", "topic-1", "topic-9"}
    assert again.log.log_start_offset == quorum.image.end_offset
    assert again.epoch > quorum.epoch
    assert set(start().found().topics) == {"topic-0", "topic-1", "topic-9"}


def test_nothing_is_left_to_run_when_it_is_closed(start: Start) -> None:
    quorum = start().lead()
    quorum.append(topic(1))
    quorum.controller.snapshotter.take()
    quorum.stop()
    quorum.run()
    quorum.clock.advance(10**9)
    quorum.run()
    assert quorum.image.end_offset == 9


# ---- any history


@pytest.mark.parametrize("seed", range(12))
def test_live_rebuilt_and_snapshot_plus_tail_are_the_same_image(start: Start, seed: int) -> None:
    random = Random(seed)
    quorum = start(batch_bytes_max=random.choice([400, 1 << 20]), max_record_bytes_between_snapshots=1 << 40).lead()
    for step in range(60):
        random_step(random, quorum)
        if random.random() < 0.1:
            quorum.controller.snapshotter.take()
            quorum.run()
        if random.random() < 0.1:
            live = quorum.image
            quorum = start(batch_bytes_max=random.choice([400, 1 << 20]), max_record_bytes_between_snapshots=1 << 40)
            assert quorum.found() == live._replace(controller_id=-1), f"seed={seed} step={step}"
            quorum.lead()


def random_step(random: Random, quorum: Quorum) -> None:
    image = quorum.appended_image
    existing = list(image.topics)
    if existing and random.random() < 0.3:
        topic_id = image.topics[random.choice(existing)].topic_id
        quorum.append(RemoveTopicRecord(topic_id=topic_id))
    elif existing and random.random() < 0.4:
        name = random.choice(existing)
        value = random.choice([None, "1", "2"])
        quorum.append(ConfigRecord(resource_type=2, resource_name=name, name="flush.ms", value=value))
    else:
        number = random.randrange(10**9)
        quorum.append(*(topic(number + more) for more in range(random.choice([1, 1, 20]))))
