"""How much may be copied when: the quota of replication, which is told the time."""

import random

import pytest

from barnabas.replication.quota import ReplicationQuota

WINDOWS, WINDOW_MS = 11, 1_000
KEPT_MS = WINDOWS * WINDOW_MS


def quota(bytes_per_second: int | None, *copied: tuple[int, int]) -> ReplicationQuota:
    """A quota after so much was copied at these times."""
    made = ReplicationQuota(WINDOWS, WINDOW_MS, bytes_per_second)
    for now_ms, size in copied:
        made.record(size, now_ms)
    return made


@pytest.mark.parametrize(
    ("bytes_per_second", "copied", "now_ms", "wait_ms"),
    [
        (None, [(0, 10**12)], 0, 0),  # no limit
        (1_000, [], 0, 0),  # nothing was copied
        (1_000, [(0, 1_000)], 0, 0),  # as much as a second may bring, at once
        (1_000, [(0, 1_001)], 0, 1_001),  # a byte more
        (1_000, [(0, 1_001)], 1_000, 1),
        (1_000, [(0, 1_001)], 1_001, 0),
        (1_000, [(0, 5_000)], 0, 5_000),  # a batch that is larger than the rate has passed, and is waited for
        (1_000, [(0, 5_000)], 3_000, 2_000),
        (1_000, [(0, 1_000), (1_000, 1_000), (2_000, 1_000)], 2_000, 1_000),
        (1_000, [(0, 500), (2_000, 1_500)], 2_000, 0),  # what was not used before may be used now
        (1_000, [(0, 10**9)], 0, KEPT_MS),  # nobody waits for longer than that
        (1_000, [(0, 10**9)], KEPT_MS - 1, 1),
        (1_000, [(0, 10**9)], KEPT_MS, 0),
        (0, [], 0, 0),
        (0, [(0, 1)], 0, KEPT_MS),  # nothing means: one answer in all that time
        (3, [(0, 10)], 0, 3_334),  # never a millisecond too early
    ],
)
def test_how_long_nothing_may_be_copied(
    bytes_per_second: int | None, copied: list[tuple[int, int]], now_ms: int, wait_ms: int
) -> None:
    assert quota(bytes_per_second, *copied).wait_ms(now_ms) == wait_ms


def test_a_rate_that_was_raised_counts_from_now_on() -> None:
    made = quota(1_000, (0, 6_000))
    assert made.wait_ms(2_000) == 4_000
    made.bytes_per_second = 2_000
    assert made.wait_ms(2_000) == 1_000
    made.bytes_per_second = None
    assert made.wait_ms(2_000) == 0


def test_after_a_pause_the_rate_begins_anew_and_nothing_is_saved_up() -> None:
    made = quota(1_000, *((second * 1_000, 1_000) for second in range(20)))
    later_ms = 20_000 + KEPT_MS
    made.record(3_000, later_ms)
    assert made.wait_ms(later_ms) == 3_000


@pytest.mark.parametrize("seed", range(20))
def test_whoever_copies_as_soon_as_it_may_gets_the_rate(seed: int) -> None:
    """Answers of any size up to the rate of three seconds, at once or late: within the last of them it is the rate."""
    choices = random.Random(seed)
    rate = choices.randrange(1_000, 10_000_000)
    made, now_ms, copied = ReplicationQuota(WINDOWS, WINDOW_MS, rate), 0, 0
    while now_ms < 120_000:
        wait_ms = made.wait_ms(now_ms)
        if wait_ms:
            assert wait_ms <= KEPT_MS
            now_ms += wait_ms
            continue
        size = choices.randrange(1, 3 * rate)
        made.record(size, now_ms)
        copied += size
        now_ms += choices.choice((0, 0, 1, 30))
    assert 0.9 * rate <= copied / (now_ms / 1_000) <= 1.1 * rate
