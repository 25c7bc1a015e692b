"""A follower's fetcher, with a leader that says what the test wants: also what no honest leader says."""

import pytest

from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.protocol.types import TopicPartition
from tests.broker.fetchers.scripted_leader import BROKER_EPOCH, FOLLOWER_ID, SESSION_ID, Scene, answer, batch, filled


def stored(partition: FollowerPartition) -> bytes:
    log = partition.log
    found = log.read(log.log_start_offset, 1 << 20, max_offset=log.log_end_offset)
    return b"" if found is None else found.read()


# ---- asking


def test_a_fetch_says_who_asks_and_from_where() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 1, 3)
    partition.leader_epoch = 4
    fetch = scene.establish(partition)
    first, request = scene.leader.fetches[0].request, fetch.request
    assert (first.session_id, first.session_epoch, first.max_wait_ms) == (0, 0, 0)
    asked = first.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (3, 4, 3)
    assert (asked.log_start_offset, asked.partition_max_bytes) == (0, 1_048_576)
    assert (request.session_id, request.session_epoch, list(request.topics)) == (SESSION_ID, 1, [])
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10_485_760)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (FOLLOWER_ID, BROKER_EPOCH)


def test_settings_take_effect() -> None:
    scene = Scene(
        replica_fetch_max_bytes="1000",
        replica_fetch_response_max_bytes="2000",
        replica_fetch_wait_max_ms="70",
        replica_fetch_min_bytes="30",
    )
    fetch = scene.establish(scene.partition("a"))
    assert (fetch.request.max_wait_ms, fetch.request.min_bytes, fetch.request.max_bytes) == (70, 30, 2_000)
    assert scene.leader.fetches[0].request.topics[0].partitions[0].partition_max_bytes == 1_000


def test_many_partitions_are_named_once_in_one_request() -> None:
    scene = Scene()
    partitions = [scene.partition("a", index) for index in range(40)]
    fetch = scene.establish(*partitions)
    assert len(scene.leader.fetches[0].named) == 40
    fetch.answer(("a", answer(batch(0), index=7)), ("a", answer(batch(0), index=9)))
    assert scene.next_fetch().named == {("a", 7): 1, ("a", 9): 1}
    scene.follow(*partitions)
    scene.run()
    assert len(scene.leader.fetches) == 3, "what is followed already is no news"


def test_what_came_is_stored_as_it_is_and_acknowledged_in_the_turn_in_which_it_came() -> None:
    scene = Scene()
    partition = scene.partition("a")
    fetch = scene.establish(partition)
    data = batch(0, count=3) + batch(3, epoch=1)
    fetch.answer(("a", answer(data, high_watermark=2)))
    scene.world.scheduler.run_until_true(lambda: partition.log.log_end_offset == 4, within_ms=100, what="it is stored")
    (fetcher,) = scene.fetchers._by_leader.values()
    assert fetcher._under_way == 1
    second = scene.next_fetch()
    assert (stored(partition), second.named) == (bytes(data), {("a", 0): 4})
    assert partition.log.high_watermark == 2
    second.answer(("a", answer(high_watermark=9, log_start_offset=1)))
    third = scene.next_fetch()
    assert (partition.log.high_watermark, partition.log.log_start_offset) == (4, 1)
    assert third.request.topics[0].partitions[0].log_start_offset == 1


def test_a_topic_that_is_flushed_record_by_record_is_acknowledged_when_it_is_on_the_disk() -> None:
    scene = Scene()
    partition = scene.partition("a", flush_messages=1)
    scene.establish(partition).answer(("a", answer(batch(0))))
    fetch = scene.next_fetch()
    assert fetch.named == {("a", 0): 1}
    assert partition.log.recovery_point == 1


def test_what_a_crash_left_unflushed_is_flushed_before_it_is_acknowledged() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 1)
    partition.log.configure(partition.log.config.with_overrides({"flush.messages": "1"}))
    assert partition.fetch_offset == 0
    scene.follow(partition)
    assert scene.next_fetch().named == {("a", 0): 2}
    assert partition.log.recovery_point == 2


def test_a_partition_that_comes_later_does_not_wait_for_the_fetch_under_way() -> None:
    scene = Scene()
    first = scene.establish(scene.partition("a"))
    scene.follow(scene.partition("b"))
    scene.world.scheduler.run_until_true(lambda: len(scene.waiting) == 2, within_ms=100, what="it is overtaken")
    assert scene.waiting[1].named == {("b", 0): 0}
    scene.follow(scene.partition("c"))
    scene.run()
    assert len(scene.waiting) == 2
    first.answer(("a", answer(batch(0))))
    scene.world.scheduler.run_until_true(lambda: len(scene.waiting) == 2, within_ms=100, what="the next follows")
    assert scene.waiting[1].named == {("a", 0): 1, ("c", 0): 0}


def test_a_log_that_starts_inside_a_batch_is_given_the_batch_whole() -> None:
    scene = Scene()
    partition = scene.partition("a")
    partition.log.truncate_fully_and_start_at(7)
    fetch = scene.establish(partition)
    fetch.answer(("a", answer(batch(5, count=4), high_watermark=9, log_start_offset=7)))
    assert scene.next_fetch().named == {("a", 0): 9}
    assert (partition.log.log_start_offset, partition.log.high_watermark) == (7, 9)


# ---- answers that do not count


def test_an_answer_to_what_is_no_longer_asked_changes_nothing() -> None:
    scene = Scene()
    a, b, c = (scene.partition(name) for name in "abc")
    fetch = scene.establish(a, b, c)
    scene.fetchers.stop(TopicPartition("a", 0))
    scene.fetchers.stop(TopicPartition("a", 0))
    b.leader_epoch = 2
    scene.follow(b)
    fetch.answer(*((name, answer(batch(0), high_watermark=1)) for name in "abc"))
    scene.run()
    assert [each.log.log_end_offset for each in (a, b, c)] == [0, 0, 1]
    assert scene.fetchers.leader_of(TopicPartition("a", 0)) is None


def test_an_answer_about_a_partition_that_nobody_asked_for_is_left_aside() -> None:
    scene = Scene()
    partition = scene.partition("a")
    scene.establish(partition).answer(
        ("x", answer(batch(0))), ("a", answer(batch(0), index=3)), ("a", answer(batch(0)))
    )
    assert scene.next_fetch().named == {("a", 0): 1}


def test_the_same_records_twice_are_stored_once() -> None:
    scene = Scene()
    partition = scene.partition("a")
    first = scene.establish(partition)
    scene.follow(scene.partition("b"))
    scene.world.scheduler.run_until_true(lambda: len(scene.waiting) == 2, within_ms=100, what="it is overtaken")
    second = scene.waiting[1]
    first.answer(("a", answer(batch(0))))
    second.answer(("a", answer(batch(0))))
    scene.run()
    assert partition.log.log_end_offset == 1


def damaged(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


@pytest.mark.parametrize(
    "records",
    [
        damaged(batch(2)),  # its CRC is wrong
        batch(1),  # before the end of the log
        batch(2) + batch(2),  # offsets that do not ascend
        batch(2) + damaged(batch(3)),  # all of an answer, or nothing
        batch(2, epoch=2),  # of an epoch that the leader cannot have had
        batch(2)[:-1],  # not even one batch
        bytearray(b"nonsense" * 10),
    ],
)
def test_a_corrupt_answer_is_tried_again_for_that_partition_alone(records: bytearray) -> None:
    scene = Scene()
    a, b = filled(scene, "a", 1, 1), scene.partition("b")
    scene.establish(a, b).answer(("a", answer(records, high_watermark=3)), ("b", answer(batch(0))))
    fetch = scene.next_fetch()
    assert fetch.named == {("b", 0): 1}
    assert [each.partitions for each in fetch.request.forgotten_topics_data] == [[0]]
    assert (a.log.log_end_offset, a.log.high_watermark, b.log.log_end_offset) == (2, a.log.high_watermark, 1)
    scene.run(60)
    again = scene.waiting[1]
    assert again.named == {("a", 0): 2}
    fetch.answer()
    again.answer(("a", answer(batch(2))))
    scene.run()
    assert a.log.log_end_offset == 3


# ---- logs that part


def test_a_log_that_parts_from_the_leaders_is_cut_and_takes_nothing_else_from_that_answer() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 1, 2, 2)
    partition.leader_epoch = 5
    high_watermark = partition.log.high_watermark = 1
    fetch = scene.establish(partition)
    fetch.answer(("a", answer(diverging=(1, 9), high_watermark=4, log_start_offset=1)))
    again = scene.next_fetch()
    asked = again.request.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (2, 1)
    assert (partition.log.high_watermark, partition.log.log_start_offset) == (high_watermark, 0)
    again.answer(("a", answer(batch(2, epoch=4), high_watermark=2)))
    scene.next_fetch()
    assert partition.log.leader_epochs.entries() == [(1, 0), (4, 2)]


def test_two_quick_changes_of_leaders_are_asked_about_one_after_the_other() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 4, 4)
    partition.leader_epoch = 6
    scene.establish(partition).answer(("a", answer(diverging=(3, 2))))
    again = scene.next_fetch()
    assert (again.named, partition.log.latest_epoch) == ({("a", 0): 1}, 1)
    again.answer(("a", answer(batch(1, 3), batch(2, 5), high_watermark=3)))
    scene.next_fetch()
    assert partition.log.leader_epochs.entries() == [(1, 0), (3, 1), (5, 2)]


def test_an_empty_answer_leaves_the_last_epoch_as_it_is() -> None:
    scene = Scene()
    partition = filled(scene, "a", 3)
    partition.leader_epoch = 4
    fetch = scene.establish(partition)
    fetch.answer(("a", answer(high_watermark=1)))
    scene.next_fetch()
    assert partition.log.latest_epoch == 3
