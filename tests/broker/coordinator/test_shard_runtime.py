"""The runtime of one partition: the order of things, who waits for what, and how it ends."""

from collections.abc import Callable

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.protocol.errors import ErrorCode, KafkaStorageError, NotLeaderOrFollower
from tests.broker.coordinator.counters import COMMIT_TIMEOUT_MS, Kit, code_of, definition

# ---- the order of things


def test_records_are_appended_and_replayed_then_committed_and_then_the_answer_leaves() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    events = kit.machine.events
    events.clear()
    decision = kit.machine.set(
        "a", 1, on_appended=lambda: events.append(f"appended {kit.partition.log_end_offset}"),
        on_committed=lambda error: events.append(f"committed {error}"),
    )  # fmt: skip
    answer = kit.runtime.run(lambda _: decision)
    assert events == ["a=1", "appended 1"]
    assert not answer.done
    answer.when_done(lambda answer: events.append(f"answered {answer.value}"))
    kit.partition.commit()
    assert events == ["a=1", "appended 1", "committed None", "answered 0"]


def test_what_cannot_be_appended_has_not_happened() -> None:
    kit = Kit()
    kit.machine.events.clear()
    events = kit.machine.events
    kit.partition.append_error = KafkaStorageError("no space")
    answer = kit.runtime.run(
        lambda counters: counters.set(
            "a", 1, on_appended=lambda: events.append("appended"), on_committed=lambda error: events.append(str(error))
        )
    )
    assert code_of(answer) == ErrorCode.NOT_COORDINATOR
    assert events == ["no space"]
    kit.partition.append_error = None
    assert kit.runtime.run(lambda counters: counters.get("a")).value == 0


def test_a_record_that_cannot_be_encoded_is_an_error_and_not_a_silence() -> None:
    kit = Kit()
    outcomes: list[object] = []
    answer = kit.runtime.run(lambda _: Decision([(object(), 1)], 0, on_committed=outcomes.append))
    assert code_of(answer) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(outcomes) == 1
    assert kit.report.having("a bug")
    assert kit.runtime.run(lambda counters: counters.set("a", 1)).value == 0


def test_what_was_decided_in_memory_is_replayed_by_the_next_load_only() -> None:
    kit = Kit()
    kit.runtime.run(lambda counters: counters.set("a", 1, is_replayed=False))
    assert kit.machine.values == {}
    kit.load()
    assert kit.machine.values == {"a": 1}


def test_a_promise_of_the_machine_is_settled_by_the_machine() -> None:
    kit = Kit()
    promise: Promise[int] = Promise()
    decision: Decision[int] = Decision([("a", 1)], promise)
    assert kit.runtime.run(lambda _: decision) is promise
    assert not promise.done


def test_the_load_and_how_much_it_brought_are_reported() -> None:
    kit = Kit()
    assert kit.report.lines == []
    kit.runtime.run(lambda counters: counters.set("a", 1))
    kit.load()
    assert kit.report.lines == ["info __counters-3: 1 counters loaded in 0 ms"]
    assert kit.machine.events == ["a=1", "loaded"]


# ---- what is not committed is not seen


def test_a_read_waits_for_what_it_shows() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    kit.runtime.run(lambda counters: counters.set("a", 1))
    seen = kit.runtime.run(lambda counters: counters.get("a"))
    assert not seen.done
    kit.partition.commit()
    assert seen.value == 1


def test_after_a_load_no_answer_shows_what_the_leader_before_left_uncommitted() -> None:
    kit = Kit()
    kit.partition.write((b"a", b"1"), (b"b", b"2"))
    kit.partition.commits_at_once = False
    kit.partition.high_watermark = 1
    kit.load()
    seen = kit.runtime.run(lambda counters: counters.get("b"))
    written = kit.runtime.run(lambda counters: counters.set("a", 3))
    assert not seen.done
    kit.partition.commit(2)
    assert seen.value == 2
    assert not written.done
    kit.partition.commit(3)
    assert written.value == 1


def test_answers_leave_in_order_each_with_its_own_offset() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    left: list[int] = []
    for number in range(5):
        answer = kit.runtime.run(lambda counters, number=number: counters.set("a", number))  # type: ignore[misc]
        answer.when_done(lambda _answer, number=number: left.append(number))  # type: ignore[misc]
    kit.partition.commit(3)
    assert left == [0, 1, 2]
    kit.partition.commit(5)
    assert left == [0, 1, 2, 3, 4]


def test_one_that_asks_again_when_it_is_answered_waits_for_its_own_commit() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    second: list[Promise[int]] = []
    first = kit.runtime.run(lambda counters: counters.set("a", 1))
    first.when_done(lambda _: second.append(kit.runtime.run(lambda counters: counters.set("a", 2))))
    kit.partition.commit(1)
    assert not second[0].done
    kit.partition.commit(2)
    assert second[0].value == 1


def test_one_that_asks_again_before_others_are_answered_does_not_hold_them_up() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    later: list[Promise[int]] = []
    first = kit.runtime.run(lambda counters: counters.set("a", 1))
    second = kit.runtime.run(lambda counters: counters.set("a", 2))
    first.when_done(lambda _: later.append(kit.runtime.run(lambda counters: counters.set("a", 3))))
    kit.partition.commit(2)
    assert second.value == 1
    assert not later[0].done
    kit.partition.commit(3)
    assert later[0].value == 2


def test_what_a_timer_would_do_is_done_at_once_and_again_if_it_could_not_be_written() -> None:
    kit = Kit()
    kit.schedule(1_000, lambda: kit.machine.set("a", 1))
    kit.partition.append_error = KafkaStorageError("no space")
    kit.runtime.timers.run("a timer", lambda: kit.machine.set("a", 2))
    assert kit.machine.values == {}
    kit.partition.append_error = None
    kit.clock.advance(1_000)
    assert kit.machine.values == {"a": 2}, "the timer of that key has another operation now"


# ---- the end


def unloaded(kit: Kit) -> None:
    kit.runtime.unload()


def failed(kit: Kit) -> None:
    kit.partition.fail(NotLeaderOrFollower("it moved"))


@pytest.mark.parametrize("end", [unloaded, failed])
def test_answers_that_wait_fail_when_leadership_is_lost_and_no_later_watermark_completes_them(
    end: Callable[[Kit], None],
) -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    heard: list[object] = []
    machine = kit.machine
    written = kit.runtime.run(lambda counters: counters.set("a", 1, on_committed=heard.append))
    seen = kit.runtime.run(lambda counters: counters.get("a"))
    end(kit)
    assert [code_of(written), code_of(seen)] == [ErrorCode.NOT_COORDINATOR] * 2
    assert machine.events[-1] == "unloaded"
    kit.partition.commit()  # as a follower: the log may have other records at these offsets by now
    kit.clock.advance(COMMIT_TIMEOUT_MS)
    assert len(heard) == 1
    assert code_of(written) == ErrorCode.NOT_COORDINATOR
    assert code_of(kit.runtime.run(lambda counters: counters.get("a"))) == ErrorCode.NOT_COORDINATOR
    assert kit.clock.pending_timers == 0


def test_the_next_load_knows_nothing_of_what_was_lost() -> None:
    kit = Kit()
    kit.runtime.run(lambda counters: counters.set("a", 1))
    kit.partition.commits_at_once = False
    lost = kit.runtime.run(lambda counters: counters.set("a", 2))
    kit.runtime.unload()
    kit.partition.truncate_to_high_watermark()
    kit.load()
    assert lost.error is not None
    assert kit.runtime.run(lambda counters: counters.get("a")).value == 1


def test_a_partition_that_moves_before_it_is_loaded_is_not_loaded_any_more() -> None:
    kit = Kit()
    kit.partition.write((b"a", b"1"))
    runtime = ShardRuntime(definition(), kit.partition, clock=kit.clock, report=kit.report)
    assert not runtime.is_loaded
    runtime.unload()
    runtime.load_some()
    assert runtime.machine.values == {}
    assert code_of(runtime.run(lambda counters: counters.get("a"))) == ErrorCode.NOT_COORDINATOR


def test_a_log_that_cannot_be_read_has_no_coordinator() -> None:
    kit = Kit()
    kit.partition.write((b"a", b"1"), (b"a", None))
    kit.load()
    assert code_of(kit.runtime.run(lambda counters: counters.get("a"))) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (line,) = kit.report.lines
    assert line.startswith("error __counters-3 cannot be read, what is stored there has no coordinator: ")


def test_records_of_a_kind_that_is_not_known_here_are_passed_over() -> None:
    kit = Kit()
    kit.partition.write((b"a", b"1"), (b"7", b"anything"))
    kit.load()
    assert kit.machine.values == {"a": 1}


# ---- commits that take too long


def test_a_commit_that_takes_too_long_fails_and_the_next_ones_have_their_own_time() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    first = kit.runtime.run(lambda counters: counters.set("a", 1))
    kit.clock.advance(COMMIT_TIMEOUT_MS - 1)
    second = kit.runtime.run(lambda counters: counters.set("a", 2))
    assert not first.done
    kit.clock.advance(1)
    assert code_of(first) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not second.done
    kit.partition.commit()
    assert second.value == 1
    kit.clock.advance(COMMIT_TIMEOUT_MS)
    assert kit.clock.pending_timers == 0


def test_what_comes_after_a_timeout_still_waits_for_what_timed_out() -> None:
    kit = Kit()
    kit.partition.commits_at_once = False
    kit.runtime.run(lambda counters: counters.set("a", 1))
    kit.clock.advance(COMMIT_TIMEOUT_MS)
    seen = kit.runtime.run(lambda counters: counters.get("a"))
    assert not seen.done
    kit.partition.commit()
    assert seen.value == 1


# ---- timers


def test_a_timer_decides_like_a_request_and_tries_again_what_could_not_be_written() -> None:
    kit = Kit()
    kit.schedule(100, lambda: kit.machine.set("a", 1))
    kit.partition.append_error = KafkaStorageError("no space")
    kit.clock.advance(100)
    assert kit.machine.values == {}
    kit.partition.append_error = None
    kit.clock.advance(500)
    assert kit.machine.values == {"a": 1}
    assert kit.runtime.timers.keys() == []


def test_a_timer_that_has_changed_the_state_already_does_not_do_so_twice() -> None:
    kit = Kit()
    runs: list[int] = []

    def operation() -> Decision[int]:
        runs.append(1)
        return kit.machine.set("a", 1, is_replayed=False)

    kit.schedule(100, operation)
    kit.partition.append_error = KafkaStorageError("no space")
    kit.clock.advance(2_000)
    assert len(runs) == 1


def test_a_timer_that_is_set_again_does_what_was_said_last_and_one_that_has_nothing_to_do_writes_nothing() -> None:
    kit = Kit()
    done: list[str] = []

    def operation(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    kit.schedule(100, operation("first"))
    kit.schedule(200, operation("second"))
    kit.clock.advance(1_000)
    assert done == ["second"]
    assert kit.partition.log_end_offset == 0
    kit.schedule(100, operation("third"))
    kit.runtime.timers.cancel("a timer")
    assert not kit.runtime.timers.is_scheduled("a timer")
    kit.clock.advance(1_000)
    assert done == ["second"]
