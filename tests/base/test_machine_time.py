"""What a state machine knows of the time, and when it is told again."""

from barnabas.base.machine_time import MachineTime
from tests.fakes import FakeClock

EARLY_MS = 100


class Machine:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ticks: list[int] = []
        self.time = MachineTime(self.clock, lambda: self.ticks.append(self.time.tell_ms()), EARLY_MS)
        self.started_ms = self.time.tell_ms()

    def ticks_after_ms(self) -> list[int]:
        return [at_ms - self.started_ms for at_ms in self.ticks]


def test_a_machine_is_told_when_something_is_due() -> None:
    machine = Machine()
    machine.time.wake_at(machine.started_ms + 50)
    machine.clock.advance(49)
    assert machine.ticks == []
    machine.clock.advance(1)
    assert machine.ticks_after_ms() == [50]
    assert machine.time.told_ms == machine.started_ms + 50


def test_a_timer_is_moved_for_what_is_earlier_or_much_later_only() -> None:
    machine = Machine()
    machine.time.wake_at(machine.started_ms + 500)
    machine.time.wake_at(machine.started_ms + 500 + EARLY_MS - 1)  # a little too early does no harm
    machine.clock.advance(500)
    assert machine.ticks_after_ms() == [500]
    machine.time.wake_at(machine.started_ms + 700)
    machine.time.wake_at(machine.started_ms + 700 + EARLY_MS)
    machine.clock.advance(299)
    assert machine.ticks_after_ms() == [500]
    machine.time.wake_at(machine.started_ms + 800)
    machine.clock.advance(1)
    assert machine.ticks_after_ms() == [500, 800]


def test_what_was_due_while_the_machine_was_looking_elsewhere_is_told_at_once() -> None:
    machine = Machine()
    machine.time.wake_at(machine.started_ms - 10)
    machine.clock.advance(0)
    assert len(machine.ticks) == 1


def test_a_machine_that_stood_still_catches_up_once() -> None:
    machine = Machine()
    machine.time.wake_at(machine.started_ms)
    machine.time.catch_up()
    machine.time.catch_up()
    machine.clock.advance(1_000)
    assert len(machine.ticks) == 1


def test_a_machine_that_has_stopped_is_told_nothing() -> None:
    machine = Machine()
    machine.time.wake_at(machine.started_ms + 50)
    machine.time.stop()
    machine.clock.advance(1_000)
    assert machine.ticks == []
