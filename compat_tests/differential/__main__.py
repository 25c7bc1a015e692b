"""python -m compat_tests.differential --pairs 10000: the long run. Differences are printed with what repeats them."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.differential.allowed import ALLOWED
from compat_tests.differential.runner import STORIES, arena, tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.differential", description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000, help="how many requests both brokers get")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="a new one, unless it is given")
    parser.add_argument("--only", choices=STORIES, help="this one story, with exactly this seed")
    parser.add_argument("--log", action="store_true", help="print what led to a difference, or the whole story")
    parser.add_argument("--allowed", action="store_true", help="print what may differ, and why")
    options = parser.parse_args()
    if options.allowed:
        print("\n".join(f"{entry.api:24} {entry.path:40} {entry.reason}" for entry in ALLOWED))
        return 0
    print(f"seed {options.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, arena(Path(folder)) as where:
        if options.only:
            story = STORIES[options.only](where, options.seed)
            story.run()
            if options.log:
                print("\n".join(story.log))
        else:
            tell(where, options.pairs, options.seed, show_progress)
        print(*where.report.lines(with_logs=options.log), sep="\n")
        seconds = time.monotonic() - started
        told = f"{where.report.total} pairs in {seconds:.0f} s, {len(where.report.found)} differences"
        print(f"\n{told}, seed {options.seed}")
    return 1 if where.report.found else 0


def show_progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
