"""All logs of a broker: found, made, moved, deleted, and put away."""

import errno
import gc
import os
from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFile, OsFiles
from barnabas.protocol.errors import KafkaStorageError, UnknownTopicOrPartition
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.opening.log_opening import LogDirInUse, parse_topic_partition
from barnabas.storage.segments.file_cache import FileCache
from tests.storage.logs import NOW_MS, ORDERS, TOPIC_ID, Broker, append, offsets_of, sized

OTHER_TOPIC_ID = bytes(16 * [7])


def directories(broker: Broker) -> list[str]:
    return sorted(name for name, size in broker.files.scandir("/data") if size < 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-c-12", ("a-b-c", 12)),
        ("__cluster_metadata-0", ("__cluster_metadata", 0)),
        ("orders", None),
        ("-0", None),
        ("orders-x", None),
        ("orders-07", None),  # its log would be looked for in orders-7
        ("orders-0.0123456789abcdef0123456789abcdef-stray", None),
        ("meta.properties", None),
    ],
)
def test_directories_are_named_by_topic_and_partition(name: str, expected: tuple[str, int] | None) -> None:
    assert parse_topic_partition(name) == expected


def test_a_log_is_made_once_and_found_again() -> None:
    broker = Broker()
    log = broker.log()
    assert broker.log() is log
    assert broker.manager.get(ORDERS) is log
    assert (list(broker.manager.partitions()), ORDERS in broker.manager) == ([ORDERS], True)
    with pytest.raises(UnknownTopicOrPartition):
        broker.manager.get(TopicPartition("orders", 1))


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_no_directory_of_a_log_is_left_alone(tmp_path: Path, *, is_clean: bool) -> None:
    broker = Broker(OsFiles(), (str(tmp_path),))
    append(broker.log())
    if is_clean:
        broker.manager.close()
    else:
        broker.manager.abandon()
    (tmp_path / "core-4711").write_bytes(b"of a process that crashed here")
    (tmp_path / "backup-2026-01-09").mkdir()
    (tmp_path / "link-1").symlink_to(tmp_path / "nowhere")
    broker.start()
    assert list(broker.manager.partitions()) == [ORDERS]
    assert broker.log().log_end_offset == 1
    broker.manager.close()


def test_after_a_clean_stop_nothing_is_opened_before_it_is_asked_for() -> None:
    broker = Broker()
    for partition in range(20):
        append(broker.log(ORDERS._replace(partition=partition)))
    broker.manager.close()
    broker.start()
    broker.disk.preads.clear()
    assert broker.disk.preads == []
    assert broker.manager.opened(ORDERS) is None
    assert dict(broker.manager.sizes(broker.manager.log_dirs[0]))[ORDERS] > 0, "its size is known all the same"
    log = broker.manager.get(ORDERS)
    assert (log.log_end_offset, log.topic_id) == (1, TOPIC_ID)


def test_the_mark_of_a_clean_stop_is_good_for_one_start() -> None:
    broker = Broker()
    append(broker.log())
    broker.manager.close()
    assert broker.files.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    broker.start()
    assert broker.manager.log_dirs[0].had_clean_shutdown
    broker.kill()
    assert not broker.manager.log_dirs[0].had_clean_shutdown


def test_a_dir_belongs_to_one_broker_at_a_time() -> None:
    broker = Broker()
    with pytest.raises(LogDirInUse, match="/data is in use"):
        Broker(broker.files, ("/other", "/data"))
    Broker(broker.files, ("/other",)).manager.close()
    broker.restart()


def test_a_dir_belongs_to_one_node_of_one_cluster() -> None:
    broker = Broker()
    broker.restart()
    with pytest.raises(ValueError, match="belongs to node 1 of cluster cluster, not to node 2"):
        broker.manager.ensure_meta_properties("cluster", 2, lambda: TOPIC_ID)
    assert b"cluster.id=cluster\nnode.id=1\n" in broker.files.read_bytes("/data/meta.properties")


def test_a_dir_of_another_node_is_left_as_it_is() -> None:
    broker = Broker()
    append(broker.log())
    broker.manager.close()
    another = LogManager(["/data"], broker.environment)
    with pytest.raises(ValueError, match="belongs to node 1 of cluster cluster, not to node 2"):
        another.open(2)
    assert broker.files.exists("/data/.kafka_cleanshutdown")
    broker.start()  # and the lock is free


def test_a_log_that_cannot_be_opened_in_the_background_does_not_keep_the_others_closed() -> None:
    broker = Broker(log_dirs=("/one", "/two"), initial_task_delay_ms=100)
    for partition in range(4):
        append(broker.log(ORDERS._replace(partition=partition)))
    broker.manager.close()
    broker.start()
    bad = broker.manager.log_dirs[1].path
    for name in broker.manager.in_dir(broker.manager.log_dirs[1]):
        broker.files.rmtree(f"{bad}/{name}")
    broker.clock.advance(3_600_000)
    good = broker.manager.in_dir(broker.manager.log_dirs[0])
    assert good
    assert all(broker.manager.opened(name) is not None for name in good)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_nothing_of_a_deleted_log_holds_for_the_next_of_that_name(*, is_restarted: bool) -> None:
    broker = Broker()
    old = broker.log()
    for _ in range(10):
        append(old)
    old.delete_records(9)
    old.note_high_watermark()
    old.flush()
    broker.clock.advance(60_000)
    assert b"orders 0 9" in broker.files.read_bytes("/data/log-start-offset-checkpoint")
    broker.manager.delete(ORDERS)
    if is_restarted:
        broker.kill()
    new = broker.manager.create(ORDERS, OTHER_TOPIC_ID, broker.config)
    for _ in range(5):
        append(new)
    new.flush()
    broker.kill()
    found = broker.manager.create(ORDERS, OTHER_TOPIC_ID, broker.config)
    assert (found.log_start_offset, found.log_end_offset, offsets_of(found)) == (0, 5, [0, 1, 2, 3, 4])
    assert broker.manager.log_dirs[0].high_watermarks == {}


def test_a_log_whose_name_cannot_be_written_again_is_refused_until_it_can() -> None:
    broker = Broker()
    append(broker.log())
    broker.manager.close()
    broker.files.remove(f"/data/{ORDERS}/partition.metadata")
    broker.start()
    room, broker.disk.capacity_bytes = broker.disk.capacity_bytes, broker.disk.used_bytes()
    with pytest.raises(KafkaStorageError, match="could not be named"):
        broker.log()
    broker.disk.capacity_bytes = room
    assert broker.log().topic_id == TOPIC_ID


def test_new_logs_go_to_the_dir_with_the_fewest() -> None:
    broker = Broker(log_dirs=("/one", "/two", "/three"))
    for partition in range(6):
        broker.log(ORDERS._replace(partition=partition))
    assert [len(list(broker.manager.sizes(log_dir))) for log_dir in broker.manager.log_dirs] == [2, 2, 2]


def test_a_dir_that_cannot_be_opened_is_offline_and_the_others_serve() -> None:
    broker = Broker(log_dirs=("/one", "/two"))
    logs = [broker.log(ORDERS._replace(partition=partition)) for partition in range(2)]
    for log in logs:
        append(log)
    broker.manager.close()
    bad, good = logs
    broker.disk.failing_syncs.add(bad.log_dir.path)
    broker.start()
    with pytest.raises(KafkaStorageError):
        broker.manager.get(bad.topic_partition)
    assert broker.manager.get(good.topic_partition).log_end_offset == 1
    with pytest.raises(KafkaStorageError):
        broker.log(bad.topic_partition)  # its records are in the other dir: it must not begin anew here
    new = broker.manager.create(TopicPartition("new", 0), TOPIC_ID, LogConfig(), is_new=True)
    assert new.log_dir.path == good.log_dir.path


def test_a_log_is_created_in_the_dir_that_it_belongs_to_even_while_another_is_offline() -> None:
    broker, ids = Broker(log_dirs=("/one", "/two")), (b"1" * 16, b"2" * 16)
    for log_dir, directory_id in zip(broker.manager.log_dirs, ids, strict=True):
        assert log_dir.meta_properties is not None
        log_dir.meta_properties = log_dir.meta_properties._replace(directory_id=directory_id)
    one, two = broker.manager.log_dirs
    create = broker.manager.create
    for partition in range(2):  # the other one is emptier by then
        log = create(ORDERS._replace(partition=partition), TOPIC_ID, LogConfig(), directory=ids[1])
        assert log.log_dir is two
    one.go_offline(OSError("broken"))
    assert create(ORDERS._replace(partition=2), TOPIC_ID, LogConfig(), directory=ids[1]).log_dir is two
    for elsewhere in (None, ids[0], b"3" * 16):
        with pytest.raises(KafkaStorageError):
            create(ORDERS._replace(partition=3), TOPIC_ID, LogConfig(), directory=elsewhere)


def test_deleting_renames_at_once_and_removes_later() -> None:
    broker = Broker()
    append(broker.log(file_delete_delay_ms=60_000))
    broker.manager.delete(ORDERS)
    (name,) = directories(broker)
    assert name.startswith("orders-0.")
    assert name.endswith("-delete")
    assert len(name) == len("orders-0.") + 32 + len("-delete")
    assert ORDERS not in broker.manager
    assert broker.log().log_end_offset == 0, "a new topic of that name begins anew, at once"
    broker.clock.advance(60_000)
    assert directories(broker) == ["orders-0"]


def test_a_name_that_is_too_long_for_the_suffix_is_cut() -> None:
    broker = Broker()
    long = TopicPartition("x" * 249, 0)
    broker.log(long)
    broker.manager.delete(long)
    (name,) = directories(broker)
    assert len(name) == 255


def test_a_deletion_that_a_crash_interrupted_is_finished_at_the_next_start() -> None:
    broker = Broker()
    append(broker.log())
    broker.manager.delete(ORDERS)
    broker.kill()
    broker.clock.advance(0)
    assert directories(broker) == []


def test_a_directory_of_an_earlier_topic_of_that_name_is_moved_aside() -> None:
    broker = Broker()
    append(broker.log())
    log = broker.manager.create(ORDERS, OTHER_TOPIC_ID, LogConfig())
    assert (log.log_end_offset, log.topic_id) == (0, OTHER_TOPIC_ID)
    assert [name.endswith("-stray") for name in directories(broker)] == [False, True]
    assert broker.report.having("warning orders-0: it belongs to an earlier topic of that name")


def test_a_log_whose_topic_id_was_lost_is_adopted() -> None:
    broker = Broker()
    append(broker.log())
    broker.manager.close()
    broker.files.remove("/data/orders-0/partition.metadata")
    broker.start()
    assert broker.log().log_end_offset == 1
    broker.restart()
    assert broker.manager.get(ORDERS).topic_id == TOPIC_ID


def test_a_log_of_which_nothing_was_flushed_and_whose_topic_id_was_lost_may_be_another_topics() -> None:
    broker = Broker()
    append(broker.log())
    broker.disk.kill()
    broker.disk.remove("/data/orders-0/partition.metadata")
    broker.start()
    assert broker.log().log_end_offset == 0
    assert [name.endswith("-stray") for name in directories(broker)] == [False, True]
    assert broker.report.having("warning orders-0: a crash took the file that names its topic")


def test_a_log_that_cannot_be_created_says_so() -> None:
    broker = Broker()
    broker.disk.failing_creates.add("orders")
    with pytest.raises(KafkaStorageError, match="orders-0 could not be created"):
        broker.log()
    broker.disk.failing_creates.clear()
    assert broker.log().log_end_offset == 0


def test_a_stop_that_cannot_write_leaves_no_clean_mark() -> None:
    broker = Broker()
    append(broker.log())
    broker.disk.capacity_bytes = broker.disk.used_bytes()
    broker.manager.close()
    assert not broker.files.exists("/data/.kafka_cleanshutdown")
    broker.disk.capacity_bytes = 1 << 40
    broker.start()
    assert offsets_of(broker.log()) == [0]


def test_many_logs_are_stopped_and_started_and_need_few_handles() -> None:
    broker = Broker(open_files_max=10)
    for partition in range(300):
        append(broker.log(ORDERS._replace(partition=partition)))
    assert len(broker.manager._cache) == 10
    broker.restart()
    for partition in range(300):
        log = broker.manager.get(ORDERS._replace(partition=partition))
        assert (log.log_end_offset, log.recovery_point) == (1, 1)
    broker.kill()
    assert sum(log.log_end_offset for log in map(broker.manager.get, list(broker.manager.partitions()))) == 300


def test_a_log_that_cannot_be_opened_does_not_keep_the_others_from_a_clean_stop() -> None:
    broker = Broker(log_dirs=("/one", "/two"), open_files_max=1)
    logs = [broker.log(ORDERS._replace(partition=partition)) for partition in range(2)]
    for log in logs:
        append(log)
    broker.files.remove(logs[0].segments.active.path)  # by hand; its descriptor was needed for the other one
    broker.manager.close()
    lost, kept = (log.log_dir.path for log in logs)
    assert lost != kept
    assert not broker.files.exists(f"{lost}/.kafka_cleanshutdown")
    assert broker.files.exists(f"{kept}/.kafka_cleanshutdown")


def test_without_descriptors_appends_are_refused_and_no_dir_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    log, other = broker.log(), broker.log(ORDERS._replace(partition=1))
    append(log)

    def refuse(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(broker.files, "open", refuse)
        for _ in range(2):
            with pytest.raises(KafkaStorageError, match="raise `ulimit -n`"):
                append(other)
    assert not log.is_offline
    assert append(other).base_offset == 0, "and then they go on"
    assert append(log).base_offset == 1


def test_a_cache_without_descriptors_gives_up_its_own(tmp_path: Path) -> None:
    files = OsFiles()
    cache = FileCache(files, 100)
    for number in range(10):
        cache.open(str(tmp_path / str(number)), True)
    attempts = iter([OSError(errno.EMFILE, "Too many open files"), None])

    class Scarce(OsFiles):
        def open(self, path: str, *, create: bool = False) -> OsFile:
            if (error := next(attempts)) is not None:
                raise error
            return super().open(path, create=create)

    cache._files = Scarce()
    cache.open(str(tmp_path / "one more"), True)
    assert len(cache) == 1


def test_stopping_leaves_no_descriptor_no_timer_and_no_lock(tmp_path: Path) -> None:
    gc.collect()  # what other tests left behind must not go in between
    before = len(os.listdir("/proc/self/fd"))
    broker = Broker(OsFiles(), [str(tmp_path / "data")])
    log = broker.log(internal_segment_bytes=1_000, flush_ms=100)
    for number in range(20):
        append(log, sized(200, timestamp=NOW_MS + number))
    broker.settle()
    broker.manager.close()
    del log
    assert len(os.listdir("/proc/self/fd")) <= before
    assert broker.clock.pending_timers == 0
    broker.start()
    assert offsets_of(broker.log()) == list(range(20))
    broker.manager.close()


def test_a_log_that_was_moved_here_keeps_the_gaps_that_compaction_left_in_it() -> None:
    broker = Broker()
    log = broker.log(internal_segment_bytes=450)
    for _ in range(6):
        append(log, sized(200))
    broker.manager.close()
    broker.files.open(f"/data/{ORDERS}/{2:020d}.log").truncate(200)  # compacted where it was written
    broker.files.remove("/data/recovery-point-offset-checkpoint")  # and unknown here
    broker.start()
    assert broker.report.having("orders-0: found with records up to 6, written elsewhere")
    broker.kill()  # before anybody asked for it
    assert offsets_of(broker.log()) == [0, 1, 2, 4, 5]
