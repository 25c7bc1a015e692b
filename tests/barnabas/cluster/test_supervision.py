"""What a supervisor decides: when brokers are started again, and in which order they stop."""

from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from barnabas.cluster.supervision import (
    FAILED,
    LEAVE_MS,
    STEADY_MS,
    STOP_MS,
    AllReady,
    Effect,
    End,
    Leave,
    Signal,
    Start,
    Supervision,
    Tell,
)


def running(count: int = 3, now_ms: int = 0) -> Supervision:
    """Brokers that are all ready."""
    supervision = Supervision(range(1, count + 1))
    assert supervision.start(now_ms) == [Start(node_id) for node_id in range(1, count + 1)]
    for node_id in range(1, count):
        assert supervision.on_ready(node_id, now_ms) == []
    assert supervision.on_ready(count, now_ms) == [AllReady()]
    for node_id in range(1, count + 1):
        assert supervision.on_in_sync(node_id, now_ms) == []
    return supervision


def without_lines(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, Tell)]


# ---- again


@pytest.mark.parametrize("code", [0, 1, 2, -SIGKILL])
def test_a_broker_that_ended_is_started_again_at_once(code: int) -> None:
    supervision = running()
    assert without_lines(supervision.on_exit(2, code, 5)) == [Start(2)]
    assert supervision.on_ready(2, 9) == []  # only the first time is everybody told


def test_a_broker_that_ends_again_and_again_waits_longer_each_time() -> None:
    supervision = running()
    now_ms, waits = 0, []
    for _ in range(10):
        effects = supervision.on_exit(2, -SIGKILL, now_ms)
        if Start(2) not in effects:
            assert supervision.deadline_ms is not None
            assert supervision.on_time(supervision.deadline_ms - 1) == []
            waits.append(supervision.deadline_ms - now_ms)
            now_ms = supervision.deadline_ms
            assert supervision.on_time(now_ms) == [Start(2)]
    assert waits == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]


def test_a_broker_that_ran_for_a_minute_is_started_again_at_once() -> None:
    supervision = running()
    supervision.on_exit(2, 0, 0)
    assert supervision.on_exit(2, 0, STEADY_MS - 1)[1:] == []
    (start,) = supervision.on_time(STEADY_MS - 1 + 500)
    assert start == Start(2)
    assert without_lines(supervision.on_exit(2, 0, 2 * STEADY_MS + 500)) == [Start(2)]


def test_the_waits_of_one_broker_are_not_those_of_another() -> None:
    supervision = running()
    supervision.on_exit(2, 0, 0)
    assert without_lines(supervision.on_exit(2, 0, 0)) == []
    assert without_lines(supervision.on_exit(3, 0, 0)) == [Start(3)]


def test_a_line_says_why_and_when() -> None:
    supervision = running()
    assert supervision.on_exit(2, -SIGKILL, 0)[0] == Tell("warning", "was ended by SIGKILL; it is started again now", 2)
    assert supervision.on_exit(2, 3, 0) == [Tell("warning", "ended with exit code 3; it is started again in 0.5 s", 2)]


# ---- failures


def test_a_broker_that_cannot_start_stops_all_and_has_the_last_word() -> None:
    supervision = Supervision((1, 2, 3))
    supervision.start(0)
    supervision.on_ready(1, 1)
    supervision.on_failed(2, "cannot listen")
    assert supervision.on_exit(2, FAILED, 2) == [Signal(1, SIGTERM), Signal(3, SIGTERM)]
    assert supervision.on_exit(1, 0, 3) == []
    assert supervision.on_exit(3, 0, 4) == [End(1, "cannot listen")]


def test_a_broker_that_was_ready_once_is_tried_again_whatever_it_says() -> None:
    supervision = running()
    supervision.on_exit(2, 0, 0)
    supervision.on_failed(2, "cannot listen")
    assert supervision.on_exit(2, FAILED, 2) == [Tell("warning", "cannot listen; it is started again in 0.5 s", 2)]


def test_a_broker_that_crashes_before_it_is_ready_is_tried_again() -> None:
    supervision = Supervision((1, 2))
    supervision.start(0)
    assert without_lines(supervision.on_exit(2, -SIGKILL, 2)) == [Start(2)]


# ---- stopping


def test_brokers_leave_one_after_the_other_and_then_all_end() -> None:
    supervision = running()
    assert supervision.on_stop(SIGTERM, 0) == [Leave(3)]
    assert supervision.on_left(3) == [Leave(2)]
    assert supervision.on_left(2) == [Leave(1)]
    assert supervision.on_left(1) == [Signal(node_id, SIGTERM) for node_id in (1, 2, 3)]
    assert supervision.on_exit(3, 0, 1) == []
    assert supervision.on_exit(1, 0, 2) == []
    assert supervision.on_exit(2, 0, 3) == [End(0)]


def test_a_broker_that_dies_while_it_leaves_holds_nobody_up() -> None:
    supervision = running(4)
    assert supervision.on_stop(SIGTERM, 0) == [Leave(4)]
    assert supervision.on_exit(4, -SIGKILL, 1) == [Leave(3)]
    assert supervision.on_exit(2, -SIGKILL, 1) == []  # its turn had not come
    assert supervision.on_left(3) == [Leave(1)]
    assert supervision.on_left(1) == [Signal(1, SIGTERM), Signal(3, SIGTERM)]


def test_leaving_takes_no_longer_than_it_may() -> None:
    supervision = running()
    supervision.on_stop(SIGTERM, 0)
    assert supervision.deadline_ms == LEAVE_MS
    assert supervision.on_time(LEAVE_MS) == [Signal(node_id, SIGTERM) for node_id in (1, 2, 3)]
    assert supervision.on_left(3) == []  # too late
    assert supervision.deadline_ms == STOP_MS


def test_what_does_not_stop_is_killed() -> None:
    supervision = running()
    supervision.on_stop(SIGTERM, 0)
    supervision.on_time(LEAVE_MS)
    supervision.on_exit(1, 0, LEAVE_MS)
    assert supervision.on_time(STOP_MS) == [Signal(2, SIGKILL), Signal(3, SIGKILL)]
    supervision.on_exit(2, -SIGKILL, STOP_MS)
    (end,) = supervision.on_exit(3, -SIGKILL, STOP_MS)
    assert isinstance(end, End)
    assert end.status == 1
    assert "recovers" in end.line


@pytest.mark.parametrize(("number", "status"), [(SIGINT, 130), (SIGTERM, 143)])
def test_a_second_signal_is_at_once(number: int, status: int) -> None:
    supervision = running(2)
    supervision.on_stop(SIGINT, 0)
    assert supervision.on_stop(number, 1) == [Signal(1, SIGKILL), Signal(2, SIGKILL)]
    supervision.on_exit(1, -SIGKILL, 2)
    assert supervision.on_exit(2, -SIGKILL, 2) == [End(status)]


def test_nothing_is_started_again_during_a_stop() -> None:
    supervision = running()
    supervision.on_exit(2, 0, 0)
    supervision.on_exit(2, 0, 0)  # it waits for half a second
    supervision.on_stop(SIGTERM, 1)
    assert Start(2) not in supervision.on_time(LEAVE_MS)
    assert supervision.on_hang_up(LEAVE_MS) == []


def test_a_stop_before_anybody_is_ready_ends_all() -> None:
    supervision = Supervision((1, 2))
    supervision.start(0)
    assert supervision.on_stop(SIGINT, 0) == [Signal(1, SIGTERM), Signal(2, SIGTERM)]


def test_a_broker_that_could_not_stop_cleanly_has_the_last_word() -> None:
    supervision = running(2)
    supervision.on_stop(SIGTERM, 0)
    supervision.on_left(2)
    supervision.on_left(1)
    supervision.on_failed(2, "the disk is gone")
    supervision.on_exit(2, FAILED, 1)
    assert supervision.on_exit(1, 0, 1) == [End(1, "the disk is gone")]


# ---- rolling


def test_a_rolling_restart_waits_until_each_broker_has_caught_up() -> None:
    supervision = running()
    for node_id in (1, 2, 3):
        effects = supervision.on_hang_up(0) if node_id == 1 else supervision.on_in_sync(node_id - 1, 0)
        assert without_lines(effects) == [Signal(node_id, SIGTERM)]
        assert supervision.on_exit(node_id, 0, 0) == [Start(node_id)]
        assert supervision.on_ready(node_id, 0) == []
    assert supervision.on_in_sync(3, 0) == [Tell("info", "was restarted", 3)]
    assert supervision.deadline_ms is None


def test_a_rolling_restart_waits_for_a_broker_that_fell_over_meanwhile() -> None:
    supervision = running()
    supervision.on_hang_up(0)
    supervision.on_exit(3, -SIGKILL, 0)
    supervision.on_exit(1, 0, 0)
    assert back(supervision, 1) == []
    assert back(supervision, 3) == [Signal(2, SIGTERM)]


def test_a_second_rolling_restart_begins_anew_after_the_present_broker() -> None:
    supervision = running(2)
    assert supervision.on_hang_up(0) == [Signal(1, SIGTERM)]
    assert supervision.on_hang_up(0) == []
    supervision.on_exit(1, 0, 0)
    assert back(supervision, 1) == [Signal(1, SIGTERM)]


def test_a_rolling_restart_kills_what_does_not_stop() -> None:
    supervision = running(2)
    supervision.on_hang_up(7)
    assert supervision.on_time(7 + STOP_MS) == [Signal(1, SIGKILL)]
    assert supervision.on_exit(1, -SIGKILL, 7 + STOP_MS) == [Start(1)]


def test_a_broker_that_does_not_come_back_in_a_rolling_restart_is_started_with_pauses_as_any_other() -> None:
    supervision = running(2)
    supervision.on_hang_up(0)
    assert supervision.on_exit(1, 0, 0) == [Start(1)]
    supervision.on_failed(1, "its port is taken")
    told = supervision.on_exit(1, FAILED, 0)
    assert told[0] == Tell("warning", "its port is taken; it is started again now", 1)
    supervision.on_failed(1, "its port is taken")
    assert without_lines(supervision.on_exit(1, FAILED, 0)) == [], "after a pause"
    assert supervision.deadline_ms is not None
    assert supervision.on_time(supervision.deadline_ms) == [Start(1)]
    assert back(supervision, 1) == [Signal(2, SIGTERM)]


def test_a_hang_up_while_brokers_start_waits_for_them() -> None:
    supervision = Supervision((1, 2))
    supervision.start(0)
    assert supervision.on_hang_up(0) == []
    assert back(supervision, 1) == []
    assert back(supervision, 2) == [AllReady(), Signal(1, SIGTERM)]


def back(supervision: Supervision, node_id: int) -> list[Effect]:
    """Returns what follows when a broker is ready, and then in sync."""
    ready = without_lines(supervision.on_ready(node_id, 0))
    return ready + without_lines(supervision.on_in_sync(node_id, 0))
