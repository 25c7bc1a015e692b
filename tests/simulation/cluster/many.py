"""Runs thousands of seeds, on all cores. What came of each is kept in a file, so that a run can be stopped and goes on
where it was; other sources begin a file of their own."""

import gc
import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.simulation.cluster.plan import plan_of
from tests.simulation.cluster.runs import Outcome, outcome_of
from tests.simulation.seeds import collected_by_hand

ROOT = Path(__file__).resolve().parents[3]
SIMULATED = ("base", "broker", "protocol", "replication", "storage", "tests/simulation")
SEEDS_TOGETHER = 5
"""How many a process runs before it says what came of them."""


class Total(NamedTuple):
    seeds: int = 0
    simulated_s: float = 0.0
    faults: int = 0
    failed: tuple[Outcome, ...] = ()

    def plus(self, outcome: Outcome) -> "Total":
        failed = self.failed if outcome.reason is None else (*self.failed, outcome)
        return Total(self.seeds + 1, self.simulated_s + outcome.simulated_s, self.faults + outcome.faults, failed)

    def __str__(self) -> str:
        hours = self.simulated_s / 3_600
        return f"{self.seeds:,} seeds, {hours:.1f} simulated hours, {self.faults:,} faults, {len(self.failed)} failed"


def sources(folders: Iterable[str] = SIMULATED) -> str:
    """Returns a digest of all that a seed depends on, as it is on the disk."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def results_file(folder: Path) -> Path:
    return folder / f"seeds-{sources()}.jsonl"


def read_outcomes(path: Path) -> Iterator[Outcome]:
    """Yields what is known already. The last line may be half written."""
    if path.is_file():
        for line in path.read_text().splitlines():
            try:
                yield Outcome(*json.loads(line))
            except (json.JSONDecodeError, TypeError):
                continue


def run_many(seeds: Iterable[int], path: Path, tell: Callable[[Total], None], processes: int | None = None) -> Total:
    """Runs the seeds of which nothing is known so far. Ctrl-C lets those end that have begun."""
    total, known, wanted = Total(), set(), list(seeds)
    for outcome in read_outcomes(path):
        if outcome.seed in wanted and outcome.seed not in known:
            known.add(outcome.seed)
            total = total.plus(outcome)
    left = [seed for seed in wanted if seed not in known]
    tell(total)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for outcome in _outcomes(left, processes or os.cpu_count() or 1):
            file.write(json.dumps(outcome) + "\n")
            file.flush()
            total = total.plus(outcome)
            tell(total)
    return total


def _outcomes(seeds: list[int], processes: int) -> Iterator[Outcome]:
    lots = [seeds[start : start + SEEDS_TOGETHER] for start in range(0, len(seeds), SEEDS_TOGETHER)][::-1]
    context = get_context("fork")
    with ProcessPoolExecutor(processes, context, initializer=_ignore_ctrl_c) as pool:
        under_way: set[Future[list[Outcome]]] = set()
        is_interrupted = False
        while under_way or (lots and not is_interrupted):
            try:
                while lots and len(under_way) < processes and not is_interrupted:
                    under_way.add(pool.submit(run_lot, lots.pop()))
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                is_interrupted = True
                continue
            for future in done:
                yield from future.result()


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_lot(seeds: list[int]) -> list[Outcome]:
    found = []
    with collected_by_hand():
        for seed in seeds:
            found.append(outcome_of(plan_of(seed)))
            gc.collect()
    return found
