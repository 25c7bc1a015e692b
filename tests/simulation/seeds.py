"""Runs a simulation for its share of the seeds. A failure says how to replay it: `SIM_SEED=<seed>` runs that one alone.

Where a seed is a plan, `SIM_PLAN=<file>` runs an edited one. `SIM_TRACE=<file>` writes the whole story of a run that
failed; its last lines are part of the message.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")
_LINES_SHOWN = 200
_ROOT = Path(__file__).resolve().parent.parent.parent


class Story(Protocol):
    """What a run can tell of itself."""

    def text(self, last: int | None = None) -> str: ...

    def hash(self) -> str: ...


class SimulationFailed(AssertionError):
    """Names the seed, and shows what happened last."""


def chosen_seeds(seeds: Sequence[int]) -> Sequence[int]:
    """The one that is to be replayed, or all of these."""
    return [int(os.environ["SIM_SEED"])] if "SIM_SEED" in os.environ else seeds


def run_seeds(run: Callable[[int], T], count: int, *, shard: int, shards: int) -> list[T]:
    """Returns what each run returned."""
    seeds = chosen_seeds(range(shard, count, shards))
    if "SIM_SEED" in os.environ and shard:
        return []  # the first shard replays it
    results = []
    with collected_by_hand():
        for seed in seeds:
            with replayable(seed):
                results.append(run(seed))
            gc.collect()
    return results


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """Leaves garbage that is in cycles where it is until a run is over: to look for it takes a quarter of the time.
    What there was before, all that the tests of this process have imported, is never looked at."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@contextmanager
def replayable(seed: int, trace: Story | None = None, plan: Path | None = None) -> Iterator[None]:
    """Lets a failure say how to replay it: by its seed, or by the file that its plan is from."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, AssertionError) else repr(error)
        raise SimulationFailed("\n".join([reason, *_story(trace), how_to_replay(seed, plan)])) from error


def how_to_replay(seed: int, plan: Path | None = None) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "tests/simulation").partition("::")[0]
    what = f"SIM_SEED={seed}" if plan is None else f"SIM_PLAN={_from_root(plan)}"
    return f"replay it with: {what} python -m pytest {test}"


def _from_root(path: Path) -> Path:
    path = path.resolve()
    return path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path


def _story(trace: Story | None) -> list[str]:
    if trace is None:
        return []
    if path := os.environ.get("SIM_TRACE"):
        with open(path, "w") as file:
            file.write(trace.text() + "\n")
    return [trace.text(_LINES_SHOWN), f"trace {trace.hash()}"]


def told_under_two_hash_seeds(*arguments: str) -> list[bytes]:
    """What `python -m tests.simulation` tells with these arguments, in two processes whose sets differ in order."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, cwd=_ROOT, stdout=subprocess.PIPE, check=True
        ).stdout
        for hash_seed in ("1", "2")
    ]
