"""What a fault does to its victims, as a value: several at once are the union of what they do."""

from random import Random
from typing import NamedTuple

from tests.chaos.faults.plan import FULL_DISK, KILL, PAUSE, STOP, Fault
from tests.chaos.world import BROKERS, CLIENTS, Cut, Slow

Ids = frozenset[int]
NOBODY: Ids = frozenset()


class Effect(NamedTuple):
    killed: Ids = NOBODY
    stopped: Ids = NOBODY
    paused: Ids = NOBODY
    full: Ids = NOBODY
    cuts: frozenset[Cut] = frozenset()
    slow: frozenset[Slow] = frozenset()

    @property
    def down(self) -> Ids:
        return self.killed | self.stopped

    def plus(self, other: "Effect") -> "Effect":
        return Effect(
            self.killed | other.killed,
            self.stopped | other.stopped,
            self.paused | other.paused,
            self.full | other.full,
            self.cuts | other.cuts,
            self.slow | other.slow,
        )


def effect_of(fault: Fault, victims: Ids) -> Effect:
    if fault.kind == KILL:
        return Effect(killed=victims)
    if fault.kind == STOP:
        return Effect(stopped=victims)
    if fault.kind == PAUSE:
        return Effect(paused=victims)
    if fault.kind == FULL_DISK:
        return Effect(full=victims)
    (victim,) = victims
    if fault.kind in ("slow sending", "slow hearing"):
        return Effect(slow=frozenset((Slow(victim, fault.kind == "slow sending"),)))
    return Effect(cuts=cuts_of(fault, victim))


def cuts_of(fault: Fault, victim: int) -> frozenset[Cut]:
    others = set(BROKERS) - {victim}
    away_from = {
        "isolate": {CLIENTS, *others},
        "cut from brokers": others,
        "cut from clients": {CLIENTS},
        "cut from one broker": {Random(fault.number).choice(sorted(others))},
        "deaf": {CLIENTS, *others},
        "mute": {CLIENTS, *others},
        "reset": others,
    }[fault.kind]
    is_reset = fault.kind == "reset"
    heard = {Cut(victim, other, is_reset) for other in away_from if fault.kind != "deaf"}
    hears = {Cut(other, victim, is_reset) for other in away_from if fault.kind != "mute"}
    return frozenset(heard | hears)
