"""`python -m compat_tests`: every client, tool and comparison, against Barnabas, three of it, and Apache Kafka.

What was seen is kept in results/, and docs/compatibility.md is written from it. With arguments for pytest (after --)
it is a run of some tests, and nothing is written.
"""

import argparse
import os
import subprocess
import sys
import time

from compat_tests import page
from compat_tests.brokers import BROKERS, ROOT

PYTEST = (sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "compat_tests")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--broker", choices=BROKERS, action="append", help="only this one (default: all)")
    parser.add_argument("pytest", nargs="*", metavar="-- PYTEST", help="arguments for pytest")
    options = parser.parse_args()
    outcomes = [run(broker, options.pytest) for broker in options.broker or BROKERS]
    if not options.pytest and not options.broker:
        page.main()
    return max(outcomes)


def run(broker: str, arguments: list[str]) -> int:
    started = time.monotonic()
    print(f"== {broker}", flush=True)
    record = () if arguments else ("-p", "compat_tests.recorder", "--record", str(page.RESULTS / f"{broker}.json"))
    environment = {**os.environ, "BROKER": broker, "COMPAT": "full"}
    code = subprocess.run([*PYTEST, *record, *arguments], cwd=ROOT, env=environment).returncode
    print(f"== {broker}: {'passed' if code == 0 else 'FAILED'}, {time.monotonic() - started:.0f} s", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
