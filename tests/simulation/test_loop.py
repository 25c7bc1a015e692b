"""Turns of a simulated process: the order of the real loop's, and time that only the scheduler moves."""

from functools import partial
from random import Random
from typing import TypeVar

import pytest

from barnabas.base.promise import Promise
from tests.simulation.files import Crash
from tests.simulation.loop import FIRST_MS, SimulatedLoop, WallClock
from tests.simulation.scheduler import SECOND, Scheduler
from tests.simulation.workers import SimulatedWorkers

T = TypeVar("T")


class Ready:
    """Ready so many times."""

    def __init__(self, calls: list[str], name: str, times: int) -> None:
        self.calls = calls
        self.name = name
        self.times = times

    def ready_events(self) -> int:
        return self.times

    def on_ready(self, events: int) -> None:
        self.times -= 1
        self.calls.append(self.name)


def new_loop(seed: int = 1) -> SimulatedLoop:
    scheduler = Scheduler(seed)
    return SimulatedLoop(scheduler, Random(seed), WallClock(scheduler))


def test_a_turn_calls_who_is_ready_then_timers_then_what_was_to_be_called_soon_then_who_waits_for_idleness() -> None:
    loop, calls = new_loop(), list[str]()
    loop.call_when_idle(calls.append, "idle")
    loop.call_soon(calls.append, "soon")
    loop.call_later(0, calls.append, "timer")
    loop.may_be_ready(Ready(calls, "ready", 1))
    loop.scheduler.run_for(1)
    assert calls == ["ready", "timer", "soon", "idle"]


def test_a_turn_in_which_the_loop_is_stopped_goes_on_to_its_end() -> None:
    loop, calls = new_loop(), list[str]()

    def stops() -> None:
        loop.stop(partial(calls.append, "stopped"))
        calls.append("went on")

    loop.call_later(0, stops)
    loop.call_soon(calls.append, "soon")
    loop.call_later(1, calls.append, "never")
    loop.scheduler.run_for(10)
    assert calls == ["went on", "soon", "stopped"]


def test_what_waits_for_idleness_comes_behind_the_requests_at_hand() -> None:
    loop, calls = new_loop(), list[str]()
    loop.may_be_ready(Ready(calls, "request", 5))
    loop.call_when_idle(calls.append, "flush")
    loop.scheduler.run_for(1)
    assert calls == ["request"] * 5 + ["flush"]


def test_requests_that_do_not_end_do_not_keep_it_waiting_for_ever() -> None:
    loop, calls = new_loop(), list[str]()
    loop.may_be_ready(Ready(calls, "request", 1_000))
    loop.call_when_idle(calls.append, "flush")
    loop.scheduler.run_for(100)
    assert calls.index("flush") == 9


def test_a_callback_that_calls_itself_again_lets_others_have_their_turn() -> None:
    loop, calls = new_loop(), list[str]()

    def again() -> None:
        calls.append("again")
        if len(calls) < 10:
            loop.call_soon(again)

    loop.call_soon(again)
    loop.call_later(0, calls.append, "timer")
    loop.scheduler.run_for(10)
    assert calls[:2] == ["timer", "again"]
    assert calls.count("again") == 9


def test_timers_come_in_the_order_of_their_times_and_never_early() -> None:
    loop, calls = new_loop(), list[tuple[str, int]]()

    def note(name: str) -> None:
        calls.append((name, loop.monotonic_ms()))

    loop.call_later(30, note, "third")
    loop.call_later(10, note, "first")
    cancelled = loop.call_later(15, note, "never")
    loop.call_later(20, note, "second")
    cancelled.cancel()
    cancelled.cancel()
    assert loop.timers == 3
    loop.scheduler.run_for(100)
    assert calls == [("first", 10), ("second", 20), ("third", 30)]
    assert loop.timers == 0


def test_the_wall_clock_jumps_and_timers_do_not() -> None:
    scheduler, calls = Scheduler(1), list[int]()
    wall_clock = WallClock(scheduler, offset_ms=-5_000)
    loop = SimulatedLoop(scheduler, Random(1), wall_clock)
    loop.call_later(1_000, lambda: calls.append(loop.now_ms()))
    assert loop.now_ms() == FIRST_MS - 5_000
    wall_clock.offset_ms = 3_600_000
    scheduler.run_for(999)
    assert calls == []
    scheduler.run_for(1)
    assert calls == [FIRST_MS + 3_600_000 + 1_000]


def test_a_paused_process_does_nothing_and_goes_on_where_it_was() -> None:
    loop, calls = new_loop(), list[str]()
    loop.call_later(10, calls.append, "timer")
    loop.pause()
    loop.may_be_ready(Ready(calls, "request", 1))
    loop.scheduler.run_for(1_000)
    assert calls == []
    loop.resume()
    loop.scheduler.run_for(1)
    assert calls == ["request", "timer"]


def test_a_bug_ends_the_simulation_and_a_crash_only_the_process() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    loop = new_loop()
    loop.call_soon(fail)
    with pytest.raises(ZeroDivisionError):
        loop.scheduler.run_for(1)

    def crash() -> None:
        raise Crash

    def die() -> None:
        calls.append("crash")
        dying.die()

    scheduler, calls = Scheduler(1), list[str]()
    dying = SimulatedLoop(scheduler, Random(1), WallClock(scheduler), die)
    dying.call_soon(crash)
    dying.call_later(5, calls.append, "after death")
    scheduler.run_for(10)
    assert calls == ["crash"]


def test_who_is_ready_at_once_is_called_in_any_order_and_all_are_called() -> None:
    orders = set()
    for seed in range(50):
        loop, calls = new_loop(seed), list[str]()
        for name in "abc":
            loop.may_be_ready(Ready(calls, name, 1))
        loop.scheduler.run_for(1)
        assert sorted(calls) == ["a", "b", "c"]
        orders.add("".join(calls))
    assert len(orders) == 6


def test_events_of_several_processes_at_one_instant_come_in_any_order() -> None:
    firsts = set()
    for seed in range(20):
        scheduler, calls = Scheduler(seed), list[str]()
        for name in ("one", "two"):
            loop = SimulatedLoop(scheduler, Random(f"{seed}/{name}"), WallClock(scheduler))
            loop.call_later(10, calls.append, name)
        scheduler.run_for(20)
        firsts.add(calls[0])
    assert firsts == {"one", "two"}


def _note(notes: list[T], promise: Promise[T]) -> None:
    notes.append(promise.value)


def test_jobs_are_done_between_the_call_and_the_answer_and_overtake_each_other() -> None:
    def job(number: int) -> int:
        done.append(number)
        return number

    orders = set()
    for seed in range(20):
        loop, done, told = new_loop(seed), list[int](), list[int]()
        workers = SimulatedWorkers(loop, Random(seed), duration_ms_max=5)

        for number in range(3):
            workers.run(partial(job, number)).when_done(partial(_note, told))
            assert done == []
        loop.scheduler.run_for(20)
        assert sorted(done) == sorted(told) == [0, 1, 2]
        assert workers.unfinished == 0
        orders.add((*done, *told))
    assert len(orders) > 10


def test_a_job_that_raises_says_so_and_more_jobs_than_threads_wait() -> None:
    loop, errors = new_loop(), list[BaseException | None]()
    workers = SimulatedWorkers(loop, Random(1), duration_ms_max=10, threads=1)
    ends_ms = list[int]()
    workers.run(lambda: 1 // 0).when_done(lambda promise: errors.append(promise.error))
    for _ in range(3):
        workers.run(lambda: None).when_done(lambda _: ends_ms.append(loop.monotonic_ms()))
    loop.scheduler.run_for(100)
    assert isinstance(errors[0], ZeroDivisionError)
    assert ends_ms == sorted(set(ends_ms))


def test_a_process_may_die_before_a_job_is_done_or_before_it_hears_of_it() -> None:
    def job(calls: list[str]) -> str:
        calls.append("done")
        return "told"

    found = set()
    for dies_ms in range(12):
        loop, calls = new_loop(), list[str]()
        workers = SimulatedWorkers(loop, Random(1), duration_ms_max=5)
        workers.run(partial(job, calls)).when_done(partial(_note, calls))
        loop.scheduler.at(dies_ms * 1_000, Random(1), loop.die)
        loop.scheduler.run_until(SECOND)
        found.add(tuple(calls))
    assert found == {(), ("done",), ("done", "told")}
