"""Runs seeds of the core tier. One that fails tells its story, and how to replay it."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.quorum.cluster import Cluster
from tests.simulation.quorum.settings import drawn
from tests.simulation.seeds import replayable


def run(seed: int, **fixed: object) -> Cluster:
    """Runs one seed; `fixed` settings are not drawn."""
    cluster = Cluster(seed, drawn(seed, **fixed))
    with replayable(seed, cluster.events):
        cluster.run()
    return cluster


class Summary(NamedTuple):
    answers: int
    voter_changes: int
    told: frozenset[str]
    """What kinds of things have happened."""


def summary(seed: int) -> Summary:
    cluster = run(seed)
    told = frozenset(what for _, what, _ in cluster.events.lines)
    return Summary(cluster.oracle.answers, cluster.voter_changes, told)


def first_failure(seeds: Iterable[int], **fixed: object) -> tuple[int, str] | None:
    """Returns the first seed that fails, and what it says; None if all pass."""
    for seed in seeds:
        cluster = Cluster(seed, drawn(seed, **fixed))
        try:
            cluster.run()
        except AssertionError as error:
            return seed, str(error)
    return None
