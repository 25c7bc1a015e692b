"""A follower in trouble: offsets that are not there, errors, dead connections, a failing disk, another leader."""

import errno

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.storage.log import Log
from tests.broker.fetchers.scripted_leader import SESSION_ID, Scene, ScriptedLeader, answer, batch, filled
from tests.simulation.net.streams import End

# ---- offsets that the leader does not have


def test_below_the_leaders_start_all_goes_and_the_log_begins_there() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 1)
    scene.leader.offsets = (50, 60)
    scene.establish(partition).answer(("a", answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))
    scene.world.scheduler.run_until_true(
        lambda: any(each.named == {("a", 0): 50} for each in scene.leader.fetches), within_ms=200, what="it begins anew"
    )
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (50, 50)


def test_beyond_the_leaders_end_the_log_is_cut_to_it() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 1, 1)
    scene.leader.offsets = (0, 2)
    scene.establish(partition).answer(("a", answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))
    scene.world.scheduler.run_until_true(
        lambda: any(each.named == {("a", 0): 2} for each in scene.leader.fetches), within_ms=200, what="it is cut"
    )


def test_a_leader_that_has_the_offset_after_all_is_asked_again_after_a_pause() -> None:
    scene = Scene()
    partition = filled(scene, "a", 1, 1, 1)
    scene.leader.offsets = (0, 8)
    scene.establish(partition).answer(("a", answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))
    scene.run(40)
    assert len(scene.leader.fetches) == 2
    assert scene.next_fetch(within_ms=60).named == {("a", 0): 3}


@pytest.mark.parametrize(
    ("error", "comes_back"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True), (ErrorCode.FENCED_LEADER_EPOCH, False)]
)
def test_a_leader_that_does_not_say_where_its_log_begins(error: ErrorCode, comes_back: bool) -> None:
    scene = Scene()
    partition = filled(scene, "a", 1)
    scene.leader.list_offsets_error = error
    scene.establish(partition).answer(("a", answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))
    scene.run(200)
    assert bool(scene.waiting) is comes_back
    assert partition.log.log_end_offset == 1


# ---- trouble


def test_a_fenced_epoch_stops_the_partition_until_the_metadata_tell_another() -> None:
    scene = Scene()
    a, b = scene.partition("a"), scene.partition("b")
    scene.establish(a, b).answer(("a", answer(error_code=ErrorCode.FENCED_LEADER_EPOCH)))
    fetch = scene.next_fetch()
    scene.follow(a, b)
    scene.run(3_000)
    assert scene.waiting == [fetch]
    a.leader_epoch = 2
    scene.follow(a)
    scene.run()
    assert [each.named for each in scene.waiting] == [{}, {("a", 0): 0}]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_other_errors_are_tried_again_after_pauses_that_grow(error: ErrorCode) -> None:
    scene = Scene()
    scene.establish(scene.partition("a"))
    pauses = []
    for _ in range(7):
        scene.next_fetch(within_ms=2_000).answer(("a", answer(error_code=error)))
        before_us = scene.world.scheduler.now_us
        scene.next_fetch(within_ms=2_000)
        pauses.append((scene.world.scheduler.now_us - before_us) / 1_000)
    expected = [50, 100, 200, 400, 800, 1_000, 1_000]
    assert all(due <= pause < due + 20 for pause, due in zip(pauses, expected)), pauses


def test_a_pause_ends_when_the_metadata_change() -> None:
    scene = Scene()
    partition = scene.partition("a")
    fetch = scene.establish(partition)
    for _ in range(5):
        fetch.answer(("a", answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        fetch = scene.next_fetch(within_ms=1_000)
    fetch.answer(("a", answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    scene.run()
    assert scene.waiting == []
    scene.follow(partition)
    scene.next_fetch(within_ms=20)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION_ID)],
)
def test_a_session_that_is_refused_starts_anew(error: ErrorCode, session_id: int) -> None:
    scene = Scene()
    scene.establish(scene.partition("a"), scene.partition("b")).answer(session_id=0, error_code=error)
    fetch = scene.next_fetch()
    assert (fetch.request.session_id, fetch.request.session_epoch) == (session_id, 0)
    assert set(fetch.named) == {("a", 0), ("b", 0)}


@pytest.mark.parametrize("end", [End.FIN, End.RST])
def test_a_connection_that_breaks_is_opened_again_with_a_session_of_its_own(end: End) -> None:
    scene = Scene()
    partition = scene.partition("a")
    fetch = scene.establish(partition)
    (connection,) = scene.world.network.connections.values()
    connection.to_client.cut(end, 10)
    fetch.answer(("a", answer(batch(0))))
    again = scene.next_fetch()
    assert (again.request.session_epoch, again.named) == (0, {("a", 0): 0})
    again.answer(("a", answer(batch(0))))
    assert scene.next_fetch().named == {("a", 0): 1}
    assert partition.log.log_end_offset == 1


def test_a_leader_that_is_silent_is_dialled_again() -> None:
    scene = Scene()
    scene.establish(scene.partition("a"))
    (connection,) = scene.world.network.connections.values()
    connection.to_client.cut(End.SILENCE, 0)
    scene.run(10_000)
    assert len(scene.waiting) == 1
    scene.run(1_000)
    assert len(scene.waiting) == 2


def test_a_log_that_fails_stops_its_partition_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    a, b = scene.partition("a"), scene.partition("b")
    fetch = scene.establish(a, b)

    def fails(_batches: memoryview, _now_ms: int) -> None:
        raise a.log.log_dir.failed(OSError(errno.ENOSPC, "no space"))

    monkeypatch.setattr(
        a.log.__class__, "append_as_follower", lambda log, *args: fails(*args) if log is a.log else None
    )
    fetch.answer(("a", answer(batch(0))), ("b", answer(high_watermark=0)))
    scene.next_fetch()
    scene.run(3_000)
    assert not any(("a", 0) in each.named for each in scene.waiting)


def test_a_full_disk_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    partition = scene.partition("a")
    fetch = scene.establish(partition)

    def fails(log: Log, _batches: memoryview, _now_ms: int) -> None:
        raise log.append_failed(OSError(errno.ENOSPC, "no space"))

    with monkeypatch.context() as full:
        full.setattr(Log, "append_as_follower", fails)
        fetch.answer(("a", answer(batch(0))))
        scene.run()
    scene.next_fetch().answer(("a", answer(batch(0))))
    assert scene.next_fetch().named == {("a", 0): 1}


@pytest.mark.parametrize(("topic", "is_stored"), [("a", False), ("__consumer_offsets", True)])
def test_below_the_floor_of_free_space_only_what_the_broker_needs_is_copied(topic: str, is_stored: bool) -> None:
    scene = Scene()
    (log_dir,) = scene.logs.log_dirs
    partition = filled(scene, topic, 1, 1, 1)
    fetch = scene.establish(partition)
    log_dir.limits = log_dir.limits._replace(free_bytes_min=log_dir.files.free_bytes("/data"))
    fetch.answer((topic, answer(batch(3), high_watermark=3, log_start_offset=2)))
    fetch = scene.next_fetch()
    assert partition.log.log_end_offset == 3 + is_stored
    assert (partition.log.high_watermark, partition.log.log_start_offset) == (3, 2), "what is deleted makes room here"
    if not is_stored:
        scene.run(1_500)
        log_dir.limits = log_dir.limits._replace(free_bytes_min=0)
        fetch.answer((topic, answer(batch(3))))
        assert scene.next_fetch().named == {(topic, 0): 4}


def test_another_leader_is_dialled_and_the_one_that_leads_nothing_is_left() -> None:
    scene = Scene()
    partition = scene.partition("a")
    fetch = scene.establish(partition)
    other = ScriptedLeader(scene.world, "other")
    partition.leader_epoch = 2
    scene.fetchers.follow(partition, other.leader)
    assert scene.fetchers.leader_of(partition.topic_partition) == other.leader
    scene.world.scheduler.run_until_true(lambda: bool(other.fetches), within_ms=200, what="the other is asked")
    assert scene.leader.connections == []
    fetch.answer(("a", answer(batch(0))))
    scene.run()
    assert partition.log.log_end_offset == 0


def test_nothing_is_fetched_after_the_end() -> None:
    scene = Scene()
    partition = scene.partition("a")
    fetch = scene.establish(partition)
    scene.fetchers.close()
    scene.fetchers.close()
    scene.follow(partition)
    fetch.answer(("a", answer(batch(0))))
    scene.run(2_000)
    assert (partition.log.log_end_offset, scene.leader.connections, scene.waiting) == (0, [], [])
