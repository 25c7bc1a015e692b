"""Makes a plan that fails as small as it can be and still fail for the same reason: people read what is left.

First faults are left out, half of them at a time, then fewer; then what there is beside them: kinds that no fault is
of, groups, producers, brokers, time. What was possible at first may be possible again after that, so all of it is tried
until nothing more can go.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from tests.simulation.cluster.plan import Plan, PlannedFault
from tests.simulation.cluster.settings import Settings

Fails = Callable[[Plan], str | None]
"""Runs a plan. Returns why it failed, as `reason_of` says it; None if it did not."""

_INVARIANT = re.compile(r"\b(?:T?I|L)\d+\b")
_REASON_CHARACTERS = 60


def reason_of(error: BaseException) -> str:
    """Returns what failed without the details that differ from run to run: the invariant, if one is named."""
    first_line = str(error).partition("\n")[0]
    if found := _INVARIANT.search(first_line):
        return found.group()
    return re.sub(r"\d+", "N", f"{type(error).__name__}: {first_line}")[:_REASON_CHARACTERS]


def shrink(plan: Plan, fails: Fails, tell: Callable[[str], None] = lambda _: None) -> Plan:
    """Returns the smallest plan that was found. Raises ValueError if this one does not fail."""
    reason = fails(plan)
    if reason is None:
        raise ValueError(f"the plan of seed {plan.seed} does not fail")
    tell(f"{described(plan)} fail with {reason}")

    def still_fails(smaller: Plan) -> bool:
        is_found = fails(smaller) == reason
        if is_found:
            tell(f"{described(smaller)} still do")
        return is_found

    while True:
        before = plan
        plan = with_fewer_faults(plan, still_fails)
        plan = with_less_beside_them(plan, still_fails)
        if plan == before:
            return plan


def described(plan: Plan) -> str:
    settings = plan.settings
    return f"{len(plan.faults)} faults, {settings.brokers} brokers, {settings.producers} producers"


def with_fewer_faults(plan: Plan, still_fails: Callable[[Plan], bool]) -> Plan:
    """Leaves out as many faults as can be: first large parts, then smaller ones (delta debugging)."""
    faults, parts = plan.faults, 2
    while faults:
        for rest in _without_a_part(faults, parts):
            if still_fails(plan._replace(faults=rest)):
                faults, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(faults):
                break
            parts = min(2 * parts, len(faults))
    return plan._replace(faults=faults)


def _without_a_part(faults: tuple[PlannedFault, ...], parts: int) -> Iterator[tuple[PlannedFault, ...]]:
    size = -(-len(faults) // parts)
    for start in range(0, len(faults), size):
        yield faults[:start] + faults[start + size :]


def with_less_beside_them(plan: Plan, still_fails: Callable[[Plan], bool]) -> Plan:
    for simpler in SIMPLER:
        for settings in simpler(plan.settings, plan.faults):
            smaller = plan._replace(settings=settings)
            if settings != plan.settings and still_fails(smaller):
                plan = smaller
                break
    return plan


Simpler = Callable[[Settings, Sequence[PlannedFault]], Iterator[Settings]]
"""Yields settings that are simpler in one way, the simplest first."""


def _kinds_that_happen(settings: Settings, faults: Sequence[PlannedFault]) -> Iterator[Settings]:
    kinds = tuple(kind for kind in settings.kinds if any(fault.kind == kind for fault in faults))
    yield settings._replace(kinds=kinds, faults=len(faults))


def _no_groups(settings: Settings, _faults: Sequence[PlannedFault]) -> Iterator[Settings]:
    for members in range(settings.members):
        yield settings._replace(members=members)


def _fewer_producers(settings: Settings, _faults: Sequence[PlannedFault]) -> Iterator[Settings]:
    for producers in range(1, settings.producers):
        yield settings._replace(producers=producers)


def _fewer_brokers(settings: Settings, _faults: Sequence[PlannedFault]) -> Iterator[Settings]:
    for brokers in range(max(settings.replication_factor, settings.voters), settings.brokers):
        yield settings._replace(brokers=brokers)


def _less_time(settings: Settings, faults: Sequence[PlannedFault]) -> Iterator[Settings]:
    """Ends the time of faults soon after the last."""
    last_ms = max((fault.at_ms for fault in faults), default=settings.calm_ms)
    for more_ms in (100, 2_000, 8_000):
        faults_ms = last_ms - settings.calm_ms + more_ms
        if faults_ms < settings.faults_ms:
            yield settings._replace(faults_ms=faults_ms)


def _as_usual(key: str) -> Simpler:
    def simpler(settings: Settings, _faults: Sequence[PlannedFault]) -> Iterator[Settings]:
        yield settings._replace(**{key: getattr(Settings(), key)})

    return simpler


USUALLY_THE_SAME = (
    "transactional", "copiers", "old_rules", "first_producer_epoch", "transaction_timeout_ms",
    "acks_leader", "admin_interval_ms", "election_timeout_ms", "fetch_timeout_ms", "fetch_wait_max_ms", "has_elr",
    "heals_all", "is_recreated_flushed", "is_unclean", "segment_bytes", "snapshot_bytes",
)  # fmt: skip

SIMPLER: tuple[Simpler, ...] = (
    _kinds_that_happen, _no_groups, _fewer_producers, _fewer_brokers, _less_time,
    *(_as_usual(key) for key in USUALLY_THE_SAME),
)  # fmt: skip
