import gc
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from barnabas.base.network import READ, WRITE
from barnabas.broker.system.loop import Loop, Timer


class Calls(list[object]):
    """What was called, in order."""

    def __call__(self, *args: object) -> None:
        self.append(args[0] if len(args) == 1 else args)


@pytest.fixture
def errors() -> list[BaseException]:
    return []


@pytest.fixture(params=[False, True], ids=["", "spinning"])
def loop(request: pytest.FixtureRequest, errors: list[BaseException]) -> Iterator[Loop]:
    loop = Loop(errors.append, spins=request.param)
    yield loop
    loop.close()


def run(loop: Loop, *, until_ms: float = 0) -> None:
    """Runs what is due within so many milliseconds."""
    loop.call_later(until_ms, loop.stop)
    loop.run()


def fail(*_args: object) -> None:
    raise RuntimeError("a bug")


class MovedTime:
    """A time that passes when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return int(self.now_s * 1e9)


def test_what_need_not_wake_the_loop_is_called_when_it_is_awake_or_an_eighth_later() -> None:
    time, calls = MovedTime(), Calls()
    loop = Loop(fail, system_time=time)

    def turn_at(now_s: float) -> list[object]:
        time.now_s = now_s
        loop.call_soon(nothing)
        loop.run_once()
        return list(calls)

    loop.call_when_awake(8_000, calls, "a")
    assert loop._timeout() == 9
    assert [turn_at(now_s) for now_s in (0, 7.9, 8)] == [[], [], ["a"]]
    loop.call_when_awake(8_000, calls, "b")
    loop.call_later(8_500, calls, "c")
    assert turn_at(16.4) == ["a"], "what is due later is looked at later"
    assert loop._timeout() == pytest.approx(0.1)
    assert turn_at(16.5) == ["a", "c", "b"]
    loop.call_when_awake(8_000, calls, "d").cancel()
    assert turn_at(30) == ["a", "c", "b"]
    loop.close()


def test_timers_run_in_the_order_of_their_deadlines(loop: Loop) -> None:
    calls = Calls()
    for delay_ms in (9, 3, 6, 0):
        loop.call_later(delay_ms, calls, delay_ms)
    run(loop, until_ms=10)
    assert calls == [0, 3, 6, 9]


def test_a_timer_does_not_run_before_it_is_due(loop: Loop) -> None:
    started = time.monotonic()
    run(loop, until_ms=20)
    assert time.monotonic() - started >= 0.02


@pytest.mark.parametrize("delay_ms", [2**31 - 1, 2**31, 40 * 86_400_000, 2**63])
def test_a_timer_may_be_further_away_than_the_system_can_wait(loop: Loop, delay_ms: int) -> None:
    """Retention of a month is one."""
    loop.call_later(delay_ms, fail)
    thread = threading.Thread(target=loop.call_from_thread, args=(loop.stop,))
    loop.call_soon(thread.start)
    loop.run()
    thread.join()


def test_a_cancelled_timer_does_not_run_and_may_be_cancelled_again(loop: Loop) -> None:
    calls = Calls()
    timer = loop.call_later(1, calls, "cancelled")
    timer.cancel()
    timer.cancel()
    run(loop, until_ms=5)
    assert calls == []


def test_a_timer_may_be_cancelled_by_one_that_is_due_at_the_same_time(loop: Loop) -> None:
    calls = Calls()
    timers: list[Timer] = []
    loop.call_later(0, lambda: timers[0].cancel())
    timers.append(loop.call_later(0.01, calls, "too late"))
    run(loop, until_ms=5)
    assert calls == []


def test_cancelling_a_timer_after_it_ran_does_no_harm(loop: Loop) -> None:
    calls = Calls()
    timer = loop.call_later(0, calls, "ran")
    run(loop)
    timer.cancel()
    run(loop)
    assert calls == ["ran"]


def test_cancelled_timers_do_not_pile_up(loop: Loop) -> None:
    """Every fetch that is answered in time cancels one, a hundred thousand times a second."""
    for _ in range(50_000):
        loop.call_later(600_000, fail).cancel()
    assert len(loop._timers) < 5_000


def test_compacting_the_timers_loses_none_that_waits(loop: Loop) -> None:
    calls = Calls()
    for index in range(100):
        loop.call_later(1 + index / 100, calls, index)
    for _ in range(5_000):
        loop.call_later(600_000, fail).cancel()
    run(loop, until_ms=5)
    assert calls == list(range(100))


def test_compacting_the_timers_while_timers_run_loses_none(loop: Loop) -> None:
    calls = Calls()
    timers = [loop.call_later(600_000, fail) for _ in range(5_000)]

    def cancel_all() -> None:
        for timer in timers:
            timer.cancel()

    loop.call_later(0, cancel_all)
    loop.call_later(0.5, calls, "next")
    run(loop, until_ms=5)
    assert calls == ["next"]


def test_what_is_called_soon_runs_in_order(loop: Loop) -> None:
    calls = Calls()
    for index in range(5):
        loop.call_soon(calls, index)
    run(loop)
    assert calls == [0, 1, 2, 3, 4]


def test_a_callback_that_calls_itself_soon_does_not_starve_sockets(loop: Loop) -> None:
    calls = Calls()
    left, right = socket.socketpair()

    def again() -> None:
        loop.call_soon(again)

    def ready(events: int) -> None:
        calls(events)
        loop.stop()

    with left, right:
        loop.register(left.fileno(), READ, ready)
        loop.call_soon(again)
        right.send(b"x")
        loop.run()
        loop.unregister(left.fileno())
    assert calls == [READ]


def test_a_socket_reports_the_events_it_is_registered_for(loop: Loop) -> None:
    calls = Calls()
    left, right = socket.socketpair()
    with left, right:
        right.send(b"x")
        loop.register(left.fileno(), READ, calls)
        loop.run_once()
        loop.modify(left.fileno(), WRITE, calls)
        loop.run_once()
        loop.modify(left.fileno(), READ | WRITE, calls)
        loop.run_once()
        loop.unregister(left.fileno())
    assert calls == [READ, WRITE, READ | WRITE]


def test_calls_from_other_threads_all_arrive_and_keep_the_order_of_their_thread(loop: Loop) -> None:
    calls: list[tuple[str, int]] = []
    count = 20_000  # more than the pipe that wakes the loop has room for

    def call_many(name: str) -> None:
        for index in range(count):
            loop.call_from_thread(calls.append, (name, index))
        loop.call_from_thread(finished, name)

    running = {"a", "b"}

    def finished(name: str) -> None:
        running.remove(name)
        if not running:
            loop.stop()

    threads = [threading.Thread(target=call_many, args=(name,)) for name in sorted(running)]
    for thread in threads:
        thread.start()
    loop.run()
    for thread in threads:
        thread.join()
    for name in ("a", "b"):
        assert [call for call in calls if call[0] == name] == [(name, index) for index in range(count)]


def test_a_call_from_a_thread_wakes_a_loop_that_has_nothing_to_do(loop: Loop) -> None:
    thread = threading.Thread(target=loop.call_from_thread, args=(loop.stop,))
    loop.call_soon(thread.start)
    loop.run()
    thread.join()


def test_a_call_from_a_thread_after_the_loop_is_closed_touches_no_other_file() -> None:
    """The descriptor of the closed loop may belong to a log segment by then."""
    loop = Loop(fail)
    loop.close()
    pipes = [os.pipe() for _ in range(8)]
    loop.call_from_thread(fail)
    try:
        for read, _write in pipes:
            os.set_blocking(read, False)
            with pytest.raises(BlockingIOError):
                os.read(read, 1)
    finally:
        for descriptor in [fd for pipe in pipes for fd in pipe]:
            os.close(descriptor)


def test_a_bug_in_one_callback_is_reported_and_stops_no_other(loop: Loop, errors: list[BaseException]) -> None:
    calls = Calls()
    left, right = socket.socketpair()
    with left, right:
        right.send(b"x")
        loop.register(left.fileno(), READ, fail)
        loop.call_later(0, fail)
        loop.call_soon(fail)
        loop.call_from_thread(fail)
        loop.call_soon(calls, "soon")
        loop.call_from_thread(calls, "from a thread")
        loop.call_later(0.1, calls, "later")
        loop.run_once()
        loop.unregister(left.fileno())
        run(loop, until_ms=2)
    assert set(calls) == {"soon", "from a thread", "later"}
    assert len(errors) == 4
    assert {type(error) for error in errors} == {RuntimeError}


def test_time_is_the_wall_clock_in_milliseconds(loop: Loop) -> None:
    assert abs(loop.now_ms() - time.time() * 1_000) < 1_000


def test_a_closed_loop_leaves_no_descriptor() -> None:
    gc.collect()  # what other tests left behind must not go in between
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        Loop(fail).close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_what_waits_for_idleness_lets_what_is_at_hand_go_first(loop: Loop) -> None:
    calls = Calls()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"12")
        loop.register(ours.fileno(), READ, lambda _events: calls(ours.recv(1)))
        loop.call_when_idle(calls, "idle")
        while "idle" not in calls:
            loop.run_once()
        loop.unregister(ours.fileno())
    assert calls == [b"1", b"2", "idle"]


def test_what_waits_for_idleness_does_not_wait_for_ever(loop: Loop) -> None:
    calls = Calls()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.register(ours.fileno(), WRITE, lambda _events: calls("busy"))  # it always is
        loop.call_when_idle(calls, "idle")
        while "idle" not in calls:
            loop.run_once()
        loop.unregister(ours.fileno())
    assert 1 < calls.count("busy") < 20


def test_an_idle_loop_calls_at_once_and_goes_on_after_an_error(loop: Loop, errors: list[BaseException]) -> None:
    calls = Calls()
    loop.call_when_idle(fail)
    loop.call_when_idle(calls, "idle")
    loop.run_once()
    assert calls == ["idle"]
    assert len(errors) == 1


class CountedTime:
    """How often the time was looked at tells how often a loop looked for more before it slept."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return time.monotonic()

    def time_ns(self) -> int:
        return time.time_ns()


def nothing() -> None:
    """What is called for the sake of the wait before it."""


@pytest.mark.parametrize(
    ("was_short", "expects_more", "jobs", "spins"),
    [
        (True, True, 0, True),
        (False, True, 0, False),  # nobody sends one request after the other: the next one will take long, too
        (True, False, 0, False),  # a piece of a large request came, and the others take their time
        (True, True, 1, False),  # a thread at work needs the GIL
    ],
)
def test_a_loop_spins_after_a_short_wait_while_no_thread_works_for_it(
    was_short: bool, expects_more: bool, jobs: int, spins: bool
) -> None:
    def looks() -> int:
        counted = CountedTime()
        loop = Loop(fail, system_time=counted, spins=True)
        loop.call_later(5, nothing)
        if was_short:
            loop.call_from_thread(nothing)  # at hand already
        loop.run_once()
        loop.jobs, loop.expects_more, counted.looks = jobs, expects_more, 0
        loop.call_later(20, nothing)
        loop.run_once()
        loop.close()
        assert counted.looks < 1_000  # for a moment, not for the whole 20 ms
        return counted.looks

    if spins:
        # A busy machine may take the processor away for the 100 µs in question, but not each time.
        assert any(looks() > 12 for _ in range(50))
    else:
        assert looks() <= 12


def test_a_loop_that_spins_takes_what_comes_meanwhile() -> None:
    loop, calls = Loop(fail, spins=True), Calls()
    ours, theirs = socket.socketpair()

    def echo(_events: int) -> None:
        calls(ours.recv(1))
        loop.expects_more = True
        theirs.send(b"x")  # the next request, while the loop still expects one
        if len(calls) == 100:
            loop.stop()

    with ours, theirs:
        loop.register(ours.fileno(), READ, echo)
        theirs.send(b"x")
        loop.run()
        loop.unregister(ours.fileno())
    loop.close()
    assert len(calls) == 100
