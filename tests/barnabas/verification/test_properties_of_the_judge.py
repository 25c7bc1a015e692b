"""A cluster without a fault is never accused, and a fault that is planted in its history is found."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from barnabas.verification import events
from barnabas.verification.events import Event
from barnabas.verification.history import line_of, read_events
from barnabas.verification.judge import judge
from tests.barnabas.verification.simulated import Simulated

SEEDS = st.integers(0, 2**32)
STEPS = st.integers(0, 300)


def counts(history: list[Event]) -> dict[str, int]:
    return {kind.slug: count for kind, count in judge(history).findings.counts.items()}


@given(SEEDS, STEPS)
@settings(max_examples=200, deadline=None)
def test_nothing_is_found_where_nothing_is_wrong(seed: int, steps: int) -> None:
    assert counts(Simulated(Random(seed)).run(steps)) == {}


@given(SEEDS, STEPS)
@settings(max_examples=30, deadline=None)
def test_a_history_is_judged_from_its_file_as_it_was_when_it_happened(seed: int, steps: int) -> None:
    history = Simulated(Random(seed)).run(steps)
    replayed = judge(read_events(map(line_of, history)))
    assert replayed.counts == judge(history).counts
    assert replayed.findings.counts == {}


def index_of_read_back(history: list[Event], random: Random) -> int:
    """The reading back of a partition that has at least four acknowledged records, all with their offsets."""
    places = [
        place
        for place, event in enumerate(history)
        if isinstance(event, events.Polled) and event.consumer == "read-back-1" and len(event.records) >= 4
    ]
    assume(places)
    place = random.choice(places)
    told = {(event.producer, event.sequence) for event in history if isinstance(event, events.Acknowledged)}
    assume(all(tuple(record[1:]) in told for record in polled_at(history, place).records))
    return place


def polled_at(history: list[Event], place: int) -> events.Polled:
    event = history[place]
    assert isinstance(event, events.Polled)
    return event


def plant(history: list[Event], random: Random, change: Callable[[list[tuple[int, ...]], int], None]) -> None:
    """Changes what is read back, at a place that is neither the first nor the last."""
    place = index_of_read_back(history, random)
    event = polled_at(history, place)
    records = [tuple(record) for record in event.records]
    change(records, random.randrange(1, len(records) - 2))
    history[place] = event._replace(records=records)


def leave_out(records: list[tuple[int, ...]], at: int) -> None:
    del records[at]


def exchange(records: list[tuple[int, ...]], at: int) -> None:
    (first, *one), (second, *other) = records[at : at + 2]
    records[at : at + 2] = [(first, *other), (second, *one)]


def repeat(records: list[tuple[int, ...]], at: int) -> None:
    records.append((records[-1][0] + 1, *records[at][1:]))


def invent(records: list[tuple[int, ...]], at: int) -> None:
    records.append((records[-1][0] + 1, 1, 1_000_000))


def go_back(records: list[tuple[int, ...]], at: int) -> None:
    records.append(records[at])


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (leave_out, "lost-write"),
        (exchange, "inconsistent-offset"),
        (repeat, "duplicate"),
        (invent, "phantom"),
        (go_back, "non-monotonic-poll"),
    ],
)
@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_what_is_planted_is_found(change: Callable[[list[tuple[int, ...]], int], None], kind: str, seed: int) -> None:
    random = Random(seed)
    history = Simulated(random).run(200)
    plant(history, random, change)
    assert kind in counts(history)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_commit_that_is_forgotten_is_found(seed: int) -> None:
    history = Simulated(Random(seed)).run(200)
    stored = [event for event in history if isinstance(event, events.Committed) and event.stored]
    assume(stored)
    last = stored[-1]
    history += [events.Asked(6, last.consumer, last.partition), events.Told(6, last.consumer, last.partition, None)]
    assert counts(history) == {"commit-went-back": 1}
