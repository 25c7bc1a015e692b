"""The timers of groups: one entry for each, moved as often as members send heartbeats."""

from barnabas.broker.groups.result import Result
from barnabas.broker.groups.timers import GroupTimers, Operation, TimerKey
from tests.storage.fakes import FakeClock

SESSION = TimerKey("session", "orders", "a")
OTHER = TimerKey("session", "orders", "b")


class Kit:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.timers = GroupTimers(self.clock, self._run)
        self.fired: list[tuple[TimerKey, str]] = []

    def _run(self, key: TimerKey, operation: Operation) -> None:
        operation()

    def schedule(self, key: TimerKey, delay_ms: int, name: str = "") -> None:
        def operation() -> Result[None] | None:
            self.fired.append((key, name))
            return None

        self.timers.schedule(key, delay_ms, operation)


def test_a_timer_fires_once_when_it_is_due() -> None:
    kit = Kit()
    kit.schedule(SESSION, 100)
    kit.clock.advance(99)
    assert kit.fired == []
    kit.clock.advance(1)
    assert kit.fired == [(SESSION, "")]
    kit.clock.advance(1_000)
    assert len(kit.fired) == 1
    assert len(kit.timers) == 0


def test_a_timer_that_is_set_again_moves_and_does_what_was_said_last() -> None:
    kit = Kit()
    kit.schedule(SESSION, 100, "first")
    kit.clock.advance(80)
    kit.schedule(SESSION, 100, "second")
    kit.clock.advance(99)
    assert kit.fired == []
    kit.clock.advance(1)
    assert kit.fired == [(SESSION, "second")]


def test_a_timer_can_be_moved_to_an_earlier_time() -> None:
    kit = Kit()
    kit.schedule(SESSION, 1_000, "late")
    kit.schedule(SESSION, 10, "early")
    kit.clock.advance(2_000)
    assert kit.fired == [(SESSION, "early")]


def test_a_cancelled_timer_does_not_fire_and_can_be_set_again() -> None:
    kit = Kit()
    kit.schedule(SESSION, 100)
    kit.timers.cancel(SESSION)
    kit.timers.cancel(OTHER)
    assert not kit.timers.is_scheduled(SESSION)
    kit.clock.advance(50)
    kit.schedule(SESSION, 100)
    kit.clock.advance(60)
    assert kit.fired == []
    kit.clock.advance(40)
    assert kit.fired == [(SESSION, "")]


def test_a_timer_may_set_others_and_itself_when_it_fires() -> None:
    kit = Kit()

    def again() -> None:
        kit.fired.append((SESSION, "again"))
        if len(kit.fired) < 3:
            kit.timers.schedule(SESSION, 10, again)

    kit.timers.schedule(SESSION, 10, again)
    kit.clock.advance(100)
    assert len(kit.fired) == 3


def test_heartbeats_leave_one_timer_of_the_loop_however_many_members_send_them() -> None:
    kit = Kit()
    for _ in range(100):
        for member in range(50):
            kit.schedule(TimerKey("session", "orders", str(member)), 45_000)
        kit.clock.advance(3_000)
    assert kit.fired == []
    assert kit.clock.pending_timers == 1
    assert len(kit.timers) == 50
    kit.timers.clear()
    assert kit.clock.pending_timers == 0
    kit.clock.advance(100_000)
    assert kit.fired == []
