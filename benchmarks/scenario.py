"""A scenario is declared: its cases, its metrics, and a function that measures one case on one broker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bench import Bench

Figures = dict[str, float]  # by the name of a metric


@dataclass(frozen=True)
class Metric:
    """`name` is what it counts and its unit comes last, as in "produce MB/s"."""

    name: str
    more_is_better: bool = False
    digits: int = 2
    judged: bool = True  # False: shown for understanding; nobody wins or loses it


@dataclass(frozen=True)
class Case:
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False  # also part of a quick run
    samples_at_most: int = 1000  # fewer for what says little for the time it takes


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    method: str  # for readers of the figures: what is done, in a sentence or two
    metrics: tuple[Metric, ...]
    cases: tuple[Case, ...]
    measure: Callable[[Bench, Case], Figures]
    settings: Mapping[str, str] = field(default_factory=dict)  # of the broker, the same for all systems
    brokers: int = 1  # processes of Barnabas, for which Apache Kafka has threads in one, unless there are replicas
    replicas: int = 1  # of each partition; with several, producers ask for acks=all, and both systems have `brokers`
    samples_at_most: int = 1000  # fewer for what takes minutes; 4 still show a winner (results.ENOUGH_SAMPLES)
    warm_up: bool = True  # load the broker before the first case, so that compilers have seen the code


def more(name: str, digits: int = 0) -> Metric:
    return Metric(name, more_is_better=True, digits=digits)


def unjudged(name: str, digits: int = 2) -> Metric:
    return Metric(name, digits=digits, judged=False)


def less(name: str, digits: int = 2) -> Metric:
    return Metric(name, more_is_better=False, digits=digits)
