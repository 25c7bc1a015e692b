"""Deadlines by key behind one timer of the loop: moved, cancelled, and fired once."""

import pytest

from barnabas.base.deadlines import Deadlines
from tests.fakes import FakeClock


class TwoClocks(FakeClock):
    """A wall clock that can be set, beside a monotonic one that cannot."""

    set_ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_ahead_ms


class Kit:
    def __init__(self, *, monotonic: bool = True) -> None:
        self.clock = TwoClocks()
        self.now_ms = self.clock.monotonic_ms if monotonic else self.clock.now_ms
        self.deadlines: Deadlines[str] = Deadlines(self.clock, self.now_ms, self._fire)
        self.fired: list[str] = []

    def _fire(self, key: str, due_ms: int, now_ms: int) -> None:
        assert due_ms <= now_ms == self.now_ms()
        self.fired.append(key)

    def schedule(self, key: str, delay_ms: int) -> None:
        self.deadlines.schedule(key, self.now_ms() + delay_ms)


@pytest.mark.parametrize("monotonic", [False, True])
def test_a_deadline_fires_once_when_it_is_due(monotonic: bool) -> None:
    kit = Kit(monotonic=monotonic)
    kit.schedule("a", 100)
    kit.clock.advance(99)
    assert kit.fired == []
    kit.clock.advance(1)
    assert kit.fired == ["a"]
    kit.clock.advance(1_000)
    assert kit.fired == ["a"]
    assert len(kit.deadlines) == 0


@pytest.mark.parametrize("monotonic", [False, True])
def test_a_wall_clock_that_is_set_ahead_moves_only_what_goes_by_it(monotonic: bool) -> None:
    kit = Kit(monotonic=monotonic)
    kit.schedule("a", 100)
    kit.schedule("b", 150)
    kit.clock.set_ahead_ms = 80
    kit.clock.advance(100)
    assert kit.fired == (["a"] if monotonic else ["a", "b"])


def test_a_deadline_that_is_set_again_moves() -> None:
    kit = Kit()
    kit.schedule("a", 100)
    kit.clock.advance(80)
    kit.schedule("a", 100)
    kit.clock.advance(99)
    assert kit.fired == []
    kit.clock.advance(1)
    assert kit.fired == ["a"]


def test_a_deadline_can_move_to_an_earlier_time_and_fires_then_only() -> None:
    kit = Kit()
    kit.schedule("a", 1_000)
    kit.schedule("a", 10)
    kit.clock.advance(10)
    assert kit.fired == ["a"]
    kit.clock.advance(2_000)
    assert kit.fired == ["a"]


def test_a_cancelled_deadline_does_not_fire_and_can_be_set_again() -> None:
    kit = Kit()
    kit.schedule("a", 100)
    kit.deadlines.cancel("a")
    kit.deadlines.cancel("b")
    assert "a" not in kit.deadlines
    kit.clock.advance(50)
    kit.schedule("a", 100)
    kit.clock.advance(60)
    assert kit.fired == []
    kit.clock.advance(40)
    assert kit.fired == ["a"]


def test_what_fires_may_set_other_deadlines_and_its_own() -> None:
    clock = FakeClock()
    fired: list[int] = []

    def fire(_key: str, due_ms: int, _now_ms: int) -> None:
        fired.append(due_ms)
        if len(fired) < 3:
            deadlines.schedule("a", due_ms + 10)

    deadlines: Deadlines[str] = Deadlines(clock, clock.monotonic_ms, fire)
    deadlines.schedule("a", clock.monotonic_ms() + 10)
    clock.advance(100)
    assert len(fired) == 3


def test_however_many_deadlines_move_one_timer_of_the_loop_stands_for_all() -> None:
    kit = Kit()
    for _ in range(100):
        for member in range(50):
            kit.schedule(str(member), 45_000)
        kit.clock.advance(3_000)
    assert kit.fired == []
    assert kit.clock.pending_timers == 1
    assert len(kit.deadlines) == len(kit.deadlines.keys()) == 50
    kit.deadlines.clear()
    assert kit.clock.pending_timers == 0
    kit.clock.advance(100_000)
    assert kit.fired == []


def test_deadlines_that_are_cancelled_leave_nothing_behind() -> None:
    """Each transaction sets one for its timeout, which may be hours away, and takes it back when it ends."""
    kit = Kit()
    kit.schedule("stays", 900_000)
    for number in range(10_000):
        kit.schedule(f"id-{number % 10}", 800_000)
        kit.deadlines.cancel(f"id-{number % 10}")
    assert len(kit.deadlines._heap) < 100
    kit.clock.advance(900_000)
    assert kit.fired == ["stays"]


def test_a_deadline_that_fails_does_not_stop_those_after_it() -> None:
    clock, fired = TwoClocks(), []

    def fire(key: str, due_ms: int, now_ms: int) -> None:
        if key == "bad":
            raise ValueError(key)
        fired.append(key)

    deadlines: Deadlines[str] = Deadlines(clock, clock.monotonic_ms, fire)
    deadlines.schedule("bad", clock.monotonic_ms() + 10)
    deadlines.schedule("good", clock.monotonic_ms() + 20)
    with pytest.raises(ValueError, match="bad"):
        clock.advance(10)
    clock.advance(10)
    assert fired == ["good"]
