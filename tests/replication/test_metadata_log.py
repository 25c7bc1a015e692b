import os
from random import Random

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.metadata_records import BeginTransactionRecord, ConfigRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.records import iter_batches
from barnabas.replication.metadata_batches import record_batches
from barnabas.replication.snapshots import list_snapshots
from barnabas.storage.files import OsFiles
from tests.replication.clusters import controller, new_topic, registration, uuid
from tests.replication.seams import Quorum

FILES = OsFiles()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "data")


@pytest.fixture
def start(path):
    """Starts the quorum on the same directory; what ran there before is given up as a killed process gives it up."""
    running = []

    def start_again(**settings):
        for quorum in running:
            for lock in quorum.logs._locks:
                lock.release()
        running.append(Quorum(FILES, path, **settings))
        return running[-1]

    return start_again


def topic(number):
    return TopicRecord(name=f"topic-{number}", topic_id=uuid(number))


def config(number, value):
    return ConfigRecord(resource_type=2, resource_name=f"topic-{number}", name="retention.ms", value=value)


def log_text(quorum):
    """Every batch as (base offset, records, epoch, is control)."""
    data = quorum.log.read(quorum.log.log_start_offset, 1 << 20, max_offset=quorum.log.log_end_offset).read()
    return [
        (header.base_offset, header.records_count, header.partition_leader_epoch, header.is_control)
        for _, header in iter_batches(data)
    ]


def test_a_new_cluster_begins_with_its_leader_and_its_metadata_version(start):
    quorum = start().lead()
    assert log_text(quorum) == [(0, 3, 1, True), (3, 2, 1, False)]
    image = quorum.metadata.image
    assert (image.epoch, image.controller_id, image.metadata_version, image.end_offset) == (1, 1, 30, 5)
    assert quorum.metadata.high_watermark == 5


def test_every_start_is_a_new_epoch_and_finds_what_was_committed(start):
    quorum = start().lead()
    quorum.append(topic(1), config(1, "5"))
    quorum.append(topic(2))
    quorum.stop()
    again = start()
    assert again.metadata.image == quorum.metadata.image._replace(controller_id=-1)
    again.lead()
    assert (again.metadata.epoch, again.metadata.image.epoch) == (2, 2)
    assert set(again.metadata.image.topics) == {"topic-1", "topic-2"}
    assert log_text(again)[-1] == (8, 3, 2, True)  # the leader change, and no second metadata.version


def test_nothing_is_told_before_it_is_on_disk_but_the_next_decision_sees_it(start):
    quorum = start().lead()
    metadata, answers = quorum.metadata, []
    before = metadata.image
    metadata.append([topic(1)], lambda error: answers.append(("first", error)))
    metadata.append([topic(2)], lambda error: answers.append(("second", error)))
    assert set(metadata.appended_image.topics) == {"topic-1", "topic-2"}
    assert (metadata.image, answers, len(quorum.commits)) == (before, [], 2)  # two of the start
    quorum.run()
    assert answers == [("first", None), ("second", None)]
    assert metadata.image is metadata.appended_image
    assert [[created.name for created in changes.created_topics] for _, changes in quorum.commits[2:]] == [
        ["topic-1"],
        ["topic-2"],
    ]


def test_appends_of_one_turn_share_one_fsync(start):
    quorum = start().lead()
    for number in range(50):
        quorum.metadata.append([topic(number)], lambda error: None)
    quorum.clock.turn()
    assert len(quorum.workers.jobs) == 1
    quorum.workers.do()
    assert len(quorum.metadata.image.topics) == 50
    assert not quorum.workers.jobs


def test_two_requests_for_one_topic_create_it_once_and_answer_in_order(start):
    quorum = start().lead()
    decider, answers = controller(), []
    quorum.metadata.decide(lambda image: decider.register_and_unfence(registration(1), image), lambda *_: None)
    request = CreateTopicsRequest(topics=[new_topic("orders")])
    for _ in range(2):
        quorum.metadata.decide(
            lambda image: decider.create_topics(request, image),
            lambda response, error: answers.append((ErrorCode(response.topics[0].error_code), error)),
        )
    assert answers == []  # the second needs no records, but says what the first has not yet made true
    quorum.run()
    assert answers == [(ErrorCode.NONE, None), (ErrorCode.TOPIC_ALREADY_EXISTS, None)]


def test_a_decision_without_records_is_answered_at_once_when_nothing_is_pending(start):
    quorum = start().lead()
    answers = []
    quorum.metadata.append([], answers.append)
    assert answers == [None]


def test_a_refusal_is_handed_to_whoever_asked(start):
    quorum = start().lead()
    answers = []
    quorum.metadata.decide(
        lambda image: controller().unfence_broker(9, 9, image), lambda *answer: answers.append(answer)
    )
    ((response, error),) = answers
    assert (response, error.code) == (None, ErrorCode.STALE_BROKER_EPOCH)


def test_a_record_that_cannot_be_replayed_is_never_written(start):
    quorum = start().lead()
    end_offset = quorum.log.log_end_offset
    with pytest.raises(AssertionError):
        quorum.metadata.append([topic(1), RemoveTopicRecord(topic_id=uuid(9))], lambda error: None)
    assert quorum.log.log_end_offset == end_offset
    assert quorum.metadata.appended_image.topics == {}


def test_what_is_too_large_for_a_batch_is_a_transaction(start):
    quorum = start(batch_bytes_max=500).lead()
    quorum.append(*map(topic, range(40)))
    assert len(log_text(quorum)) > 4
    again = start()
    assert again.metadata.image.topics == quorum.metadata.image.topics
    assert len(again.metadata.image.topics) == 40


def test_a_transaction_that_never_ended_is_aborted_by_the_next_leader(start):
    quorum = start().lead()
    for batch in record_batches([BeginTransactionRecord(name="x"), topic(1)], now_ms=5):
        quorum.log.append_own(memoryview(batch), leader_epoch=1, now_ms=5)
    quorum.log.flush(lambda error: None)
    quorum.run()
    again = start()
    assert again.metadata.image.topics == {}
    again.lead().append(topic(2))
    last = start()
    assert set(last.metadata.image.topics) == {"topic-2"}
    assert log_text(last)[-3:] == [(7, 3, 2, True), (10, 1, 2, False), (11, 1, 2, False)]  # leads, aborts, goes on


# ---- snapshots


def snapshot_ids(quorum):
    return [tuple(snapshot_id) for snapshot_id in list_snapshots(FILES, quorum.log.path)]


def grown(start, topics, **settings):
    """With a snapshot after each topic."""
    quorum = start(**settings).lead()
    for number in range(topics):
        quorum.append(topic(number))
        quorum.metadata.take_snapshot()
        quorum.run()
    return quorum


def test_a_snapshot_is_taken_after_so_many_bytes(start):
    quorum = start(max_record_bytes_between_snapshots=1000).lead()
    numbers = iter(range(100))
    while not snapshot_ids(quorum):
        quorum.append(topic(next(numbers)))
    assert 5 < next(numbers) < 20
    assert snapshot_ids(quorum) == [(quorum.metadata.image.end_offset, 1)]


def test_a_snapshot_is_taken_after_so_much_time_if_anything_is_new(start):
    quorum = start(max_snapshot_interval_ms=60_000).lead()
    quorum.append(topic(1))
    quorum.clock.advance(59_999)
    quorum.run()
    assert snapshot_ids(quorum) == []
    quorum.clock.advance(1)
    quorum.run()
    assert snapshot_ids(quorum) == [(6, 1)]
    quorum.clock.advance(600_000)
    quorum.run()
    assert snapshot_ids(quorum) == [(6, 1)]  # nothing happened since


def test_two_snapshots_are_kept_and_the_log_from_the_older_one_on(start):
    quorum = grown(start, 4)
    assert snapshot_ids(quorum) == [(8, 1), (9, 1)]
    assert quorum.log.log_start_offset == 8
    assert quorum.log.segments[0].base_offset == 8


def test_the_first_snapshot_leaves_the_log_whole(start):
    quorum = grown(start, 1)
    assert (snapshot_ids(quorum), quorum.log.log_start_offset) == ([(6, 1)], 0)


def test_a_start_reads_the_latest_snapshot_and_the_log_behind_it(start):
    quorum = grown(start, 3)
    quorum.append(config(1, "5"))
    again = start()
    assert again.metadata.image == quorum.metadata.image._replace(controller_id=-1)
    again.lead()
    assert again.metadata.epoch == 2


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1], id="torn"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], id="a bit flipped"),
        pytest.param(lambda data: data[: data.rindex(b"\x00" * 8)][:-60], id="no footer"),
    ],
)
def test_a_damaged_snapshot_is_reported_and_the_one_before_it_used(start, damage):
    quorum = grown(start, 4)
    name = list_snapshots(FILES, quorum.log.path)[-1].file_name
    with open(f"{quorum.log.path}/{name}", "r+b") as file:
        data = file.read()
        file.seek(0)
        file.truncate()
        file.write(damage(data))
    again = start()
    assert again.metadata.image == quorum.metadata.image._replace(controller_id=-1)
    assert again.report.having(name)


def test_metadata_that_is_lost_is_not_silently_begun_anew(start):
    quorum = grown(start, 4)
    for snapshot_id in list_snapshots(FILES, quorum.log.path):
        os.unlink(f"{quorum.log.path}/{snapshot_id.file_name}")
    with pytest.raises(KafkaStorageError, match="lost"):
        start()


def test_a_snapshot_that_was_not_finished_is_swept_away(start):
    quorum = grown(start, 1)
    part = f"{quorum.log.path}/00000000000000000009-0000000001.checkpoint.part"
    with open(part, "wb") as file:
        file.write(b"half")
    start()
    assert not os.path.exists(part)


def test_a_log_that_ends_before_its_snapshot_goes_on_behind_it(start, path):
    quorum = grown(start, 2)
    quorum.stop()
    for name in os.listdir(quorum.log.path):
        if not name.endswith(".checkpoint"):
            os.unlink(f"{quorum.log.path}/{name}")
    again = start()
    assert again.metadata.image.topics == quorum.metadata.image.topics
    again.lead().append(topic(9))
    assert again.metadata.image.end_offset == quorum.metadata.image.end_offset + 4
    assert set(start().metadata.image.topics) == {"topic-0", "topic-1", "topic-9"}
    assert again.report.having("going on from the snapshot")


def test_nothing_is_left_to_run_when_it_is_closed(start):
    quorum = start().lead()
    quorum.append(topic(1))
    quorum.metadata.take_snapshot()
    quorum.stop()
    quorum.run()
    quorum.clock.advance(10**9)
    quorum.run()
    assert quorum.metadata.image.end_offset == 6


# ---- any history


@pytest.mark.parametrize("seed", range(12))
def test_live_rebuilt_and_snapshot_plus_tail_are_the_same_image(start, seed):
    random = Random(seed)
    quorum = start(batch_bytes_max=random.choice([400, 1 << 20]), max_record_bytes_between_snapshots=1 << 40).lead()
    for step in range(60):
        random_step(random, quorum)
        if random.random() < 0.1:
            quorum.metadata.take_snapshot()
            quorum.run()
        if random.random() < 0.1:
            live = quorum.metadata.image
            quorum = start(batch_bytes_max=random.choice([400, 1 << 20]), max_record_bytes_between_snapshots=1 << 40)
            assert quorum.metadata.image == live._replace(controller_id=-1), f"seed={seed} step={step}"
            quorum.lead()


def random_step(random, quorum):
    image = quorum.metadata.appended_image
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
