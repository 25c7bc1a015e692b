"""What a fetcher asks for while the quota of followers is exceeded, with a leader that says what the test wants."""

import pytest

from barnabas.broker.replicas.follower import FollowerPartition
from tests.broker.fetchers.scripted_leader import FOLLOWER_ID, AskedFetch, Scene, answer, batch

BATCH = len(batch(0))
LISTED = (f"0:{FOLLOWER_ID}", f"1:{FOLLOWER_ID}", "2:9")
BEHIND = 1_000
"""A high watermark that lies far ahead."""


def throttled(scene: Scene, index: int = 0, name: str = "a", replicas: tuple[str, ...] = LISTED) -> FollowerPartition:
    return scene.partition(name, index, follower_replication_throttled_replicas=replicas)


def forgotten(fetch: AskedFetch) -> list[int]:
    return [index for topic in fetch.request.forgotten_topics_data for index in topic.partitions]


def establish(scene: Scene, *partitions: FollowerPartition) -> AskedFetch:
    """Has partitions followed that are all far behind. Returns the fetch that comes when that is known."""
    scene.follow(*partitions)
    names = [partition.topic_partition for partition in partitions]
    scene.next_fetch().answer(*((name.topic, answer(index=name.partition, high_watermark=BEHIND)) for name in names))
    return scene.next_fetch()


def scene_of(bytes_per_second: int) -> Scene:
    scene = Scene()
    scene.throttle.limit(bytes_per_second)
    return scene


def test_what_is_not_in_sync_is_left_out_until_the_quota_allows_more() -> None:
    scene = scene_of(BATCH // 2)
    fetch = establish(scene, throttled(scene), scene.partition("b"))
    fetch.answer(("a", answer(batch(0), high_watermark=BEHIND)))
    fetch = scene.next_fetch()
    assert (fetch.named, forgotten(fetch)) == ({}, [0])
    scene.run(1_900)
    assert scene.waiting == [fetch]
    scene.run(200)
    assert [each.named for each in scene.waiting] == [{}, {("a", 0): 1}], "it does not wait for the fetch under way"


def test_a_fetcher_that_leaves_out_everything_sends_nothing_and_then_goes_on() -> None:
    scene = scene_of(BATCH // 2)
    establish(scene, throttled(scene)).answer(("a", answer(batch(0), high_watermark=BEHIND)))
    scene.run(1_900)
    assert scene.waiting == []
    assert scene.next_fetch().named == {("a", 0): 1}


def test_what_has_all_that_is_committed_does_not_wait_and_counts() -> None:
    scene = scene_of(BATCH // 2)
    fetch = establish(scene, throttled(scene, 0), throttled(scene, 1))
    fetch.answer(("a", answer(batch(0), high_watermark=1)))
    fetch = scene.next_fetch()
    assert (fetch.named, forgotten(fetch)) == ({("a", 0): 1}, [1])
    fetch.answer(("a", answer(batch(1), high_watermark=2)))
    assert scene.next_fetch().named == {("a", 0): 2}


def test_replicas_that_are_not_listed_neither_wait_nor_count() -> None:
    scene = scene_of(1)
    fetch = establish(scene, throttled(scene, 2), throttled(scene, 0))
    for offset in range(5):
        fetch.answer(("a", answer(batch(offset), index=2, high_watermark=BEHIND)))
        fetch = scene.next_fetch()
        assert (fetch.named, forgotten(fetch)) == ({("a", 2): offset + 1}, [])


def test_those_that_had_nothing_for_longest_are_asked_for_first() -> None:
    scene = scene_of(BATCH)
    fetch = establish(scene, *(throttled(scene, index, replicas=("*",)) for index in range(4)))
    data = answer(batch(0), batch(1), high_watermark=BEHIND)
    fetch.answer(("a", data))
    assert list(scene.next_fetch(within_ms=3_000).named) == [("a", 1), ("a", 2), ("a", 3), ("a", 0)]


@pytest.mark.parametrize("what", ["rate", "replicas"])
def test_a_change_of_what_is_throttled_is_obeyed_at_once(what: str) -> None:
    scene = scene_of(1)
    partition = throttled(scene)
    establish(scene, partition).answer(("a", answer(batch(0), high_watermark=BEHIND)))
    scene.run(500)
    assert scene.waiting == []
    if what == "rate":
        scene.throttle.limit(None)
    else:
        partition.log.configure(partition.log.config.with_overrides({"follower.replication.throttled.replicas": ""}))
        scene.throttle.wake()
    assert scene.next_fetch(within_ms=5).named == {("a", 0): 1}


def test_what_is_followed_no_more_is_not_asked_for_when_the_quota_allows_it() -> None:
    scene = scene_of(BATCH)
    gone, stays = throttled(scene, 0), throttled(scene, 1)
    data = answer(batch(0), batch(1), high_watermark=BEHIND)
    establish(scene, gone, stays).answer(("a", data))
    scene.run(100)
    scene.fetchers.stop(gone.topic_partition)
    assert scene.next_fetch(within_ms=3_000).named == {("a", 1): 0}


def test_a_fetcher_that_is_closed_waits_for_nothing() -> None:
    scene = scene_of(1)
    establish(scene, throttled(scene)).answer(("a", answer(batch(0), high_watermark=BEHIND)))
    scene.run(100)
    scene.fetchers.close()
    scene.throttle.limit(None)
    scene.run(100)
    assert scene.waiting == []
