"""What the rules about links remember."""

import pytest

from barnabas.broker.cluster.link_rules import SPARED_MAX_MS, SPARED_MS, Crowd, FalseAlarms


@pytest.mark.parametrize(
    ("links", "closed", "is_suspicious"),
    [
        (5, 1, False),
        (1, 1, False),  # one broker that dies is one broker that dies
        (5, 2, False),
        (4, 2, True),  # half of them
        (2, 2, True),
        (5, 3, True),
    ],
)
def test_when_half_of_the_links_close_together_the_fault_may_be_here(
    links: int, closed: int, is_suspicious: bool
) -> None:
    crowd = Crowd(links, now_ms=0)
    for _ in range(closed):
        crowd.join()
    assert crowd.is_suspicious == is_suspicious


def test_what_closes_later_belongs_to_another_crowd() -> None:
    crowd = Crowd(4, now_ms=1_000)
    assert crowd.takes(now_ms=1_100)
    assert not crowd.takes(now_ms=1_101)


def test_a_broker_is_spared_for_twice_as_long_each_time_it_was_fenced_for_nothing() -> None:
    alarms, now_ms, spared = FalseAlarms(), 0, []
    for _ in range(7):
        alarms.fenced(2, 70)
        spared.append(alarms.heard(2, 70, now_ms=now_ms))
        assert alarms.is_spared(2, 70, now_ms=now_ms + spared[-1] - 1)
        now_ms += spared[-1]
        assert not alarms.is_spared(2, 70, now_ms=now_ms)
    assert spared[:3] == [SPARED_MS, 2 * SPARED_MS, 4 * SPARED_MS]
    assert spared[-2:] == [SPARED_MAX_MS, SPARED_MAX_MS]


def test_a_broker_that_was_not_fenced_or_has_started_again_is_no_false_alarm() -> None:
    alarms = FalseAlarms()
    assert not alarms.heard(2, 70, now_ms=0)
    alarms.fenced(2, 70)
    assert not alarms.heard(2, 80, now_ms=0), "it had died, and this is its next life"
    assert alarms.heard(2, 70, now_ms=0)
    assert not alarms.heard(2, 70, now_ms=0), "an alarm counts once"
    assert not alarms.is_spared(2, 80, now_ms=0)
