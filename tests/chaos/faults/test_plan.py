"""A seed is a plan, which can be kept and edited; several faults at once are what each of them does."""

from tests.chaos.faults.effects import Effect, effect_of
from tests.chaos.faults.plan import DECK, NEED_LINKS, ROLLING, STOP, Fault, plan_of, read_plan
from tests.chaos.world import Cut, Slow


def test_a_seed_draws_the_same_faults_each_time_and_others_than_the_next() -> None:
    plans = [plan_of(seed, 60, has_links=True) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


def test_a_plan_can_be_kept() -> None:
    plan = plan_of(3, 60, has_links=True)._replace(settings=(("min.insync.replicas", "1"),), defect="a name")
    assert read_plan(plan.text()) == plan


def test_every_kind_of_fault_comes_in_four_minutes() -> None:
    for seed in range(20):
        faults = plan_of(seed, 240, has_links=True).faults
        assert {fault.kind for fault in faults} == set(DECK) - {ROLLING}  # which is three stops
        assert len([fault for fault in faults if fault.kind == STOP]) >= 3


def test_where_links_cannot_be_cut_processes_are_broken_all_the_same() -> None:
    faults = plan_of(1, 120, has_links=False).faults
    assert not {fault.kind for fault in faults} & set(NEED_LINKS)
    assert len(faults) > 10


def fault(kind: str) -> Fault:
    return Fault(0, kind, "leader", 1000, 7)


def test_what_links_do() -> None:
    two = frozenset((2,))
    assert effect_of(fault("deaf"), two).cuts == {Cut(0, 2), Cut(1, 2), Cut(3, 2)}
    assert effect_of(fault("mute"), two).cuts == {Cut(2, 0), Cut(2, 1), Cut(2, 3)}
    assert effect_of(fault("cut from clients"), two).cuts == {Cut(0, 2), Cut(2, 0)}
    assert effect_of(fault("reset"), two).cuts == {Cut(a, b, True) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))}
    assert len(effect_of(fault("isolate"), two).cuts) == 6
    (one, other) = effect_of(fault("cut from one broker"), two).cuts
    assert (one.source, one.target) == (other.target, other.source)
    assert effect_of(fault("slow hearing"), two).slow == {Slow(2, False)}


def test_what_is_down_for_two_reasons_is_up_when_both_are_over() -> None:
    killed = effect_of(fault("kill"), frozenset((1,)))
    stopped = effect_of(fault("stop"), frozenset((1, 2)))
    assert killed.plus(stopped).down == {1, 2}
    assert Effect().plus(stopped) == stopped
