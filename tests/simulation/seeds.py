"""Runs a simulation for its share of the seeds. A failure names its seed; `CRASH_SEED=<seed>` runs that one alone."""

import os
from collections.abc import Callable


def run_seeds(run: Callable[[int], int], count: int, *, shard: int, shards: int) -> list[int]:
    """What each run returned."""
    seeds = list(range(shard, count, shards))
    if "CRASH_SEED" in os.environ:
        seeds = [int(os.environ["CRASH_SEED"])] if shard == 0 else []
    results = []
    for seed in seeds:
        try:
            results.append(run(seed))
        except AssertionError as error:
            raise AssertionError(f"CRASH_SEED={seed}: {error}") from error
        except Exception as error:
            raise AssertionError(f"CRASH_SEED={seed}: {error!r}") from error
    return results
