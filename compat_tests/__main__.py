"""`python -m compat_tests`: every client, tool and comparison, against Barnabas, three of it, and Apache Kafka.

What was seen is kept in results/, and docs/compatibility.md is written from it. With arguments for pytest (after --)
it is a run of some tests, and nothing is written.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from compat_tests import page
from compat_tests.brokers import BROKERS, ROOT

PYTEST = (sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--broker", choices=BROKERS, action="append", help="only this one (default: all)")
    parser.add_argument("--failed", action="store_true", help="run again what failed in the last run; the page says so")
    parser.add_argument("pytest", nargs="*", metavar="-- PYTEST", help="arguments for pytest")
    options = parser.parse_args()
    brokers = options.broker or BROKERS
    if options.failed:
        outcomes = [run_again(broker) for broker in brokers]
    else:
        outcomes = [run(broker, options.pytest) for broker in brokers]
    if options.failed or not (options.pytest or options.broker):
        page.main()
    return max(outcomes)


def run(broker: str, arguments: list[str]) -> int:
    record = () if arguments else ("-p", "compat_tests.recorder", "--record", str(page.RESULTS / f"{broker}.json"))
    return run_pytest(broker, *record, *arguments)


def run_again(broker: str) -> int:
    """Runs the tests that failed, and puts what they say now in the place of what they said."""
    path = page.RESULTS / f"{broker}.json"
    failed = [name for name, test in page.Run.read(path).tests.items() if test["outcome"] == "failed"]
    if not failed:
        print(f"== {broker}: nothing failed", flush=True)
        return 0
    return run_pytest(broker, "-p", "compat_tests.recorder", "--record", str(path), "--record-again", tests=failed)


def run_pytest(broker: str, *arguments: str, tests: Sequence[str] = ("compat_tests",)) -> int:
    started = time.monotonic()
    print(f"== {broker}", flush=True)
    environment = {**os.environ, "BROKER": broker, "COMPAT": "full"}
    code = subprocess.run([*PYTEST, *arguments, *tests], cwd=ROOT, env=environment).returncode
    print(f"== {broker}: {'passed' if code == 0 else 'FAILED'}, {time.monotonic() - started:.0f} s", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
