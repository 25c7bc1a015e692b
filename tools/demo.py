"""`make demo`: a broker, a few hundred thousand events of a web shop, and three Spark jobs that look at them.

Everything is done by the commands that users have; each is printed before it runs. The files stay in ./demo.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".cache" / "spark-kafka-4.0.0" / "libs"
BARNABAS = (sys.executable, "-m", "barnabas")
TOPIC, DEAD_LETTERS = "events", "events-dead-letters"
FINDINGS = 3  # an audit that found something has done its work
PAGES = ("home", "search", "product", "basket", "checkout")
CUSTOMERS = 20_000
CORRUPT_EVERY = 1_000
LATE_EVERY = 500
HOUR_MS = 3_600_000


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--events", type=int, default=300_000, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="default: ./demo; what is there is replaced")
    options = parser.parse_args(words)
    folder: Path = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    with broker(folder) as address:
        produce(address, options.events)
        failed = [name for name, words in jobs(folder) if not run_job(name, address, words)]
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
        return 1
    print(f"\ndone in {time.monotonic() - started:.0f} s; what there is to look at:")
    for path, what in (
        ("archive", "every event, as Parquet: any reader takes the folder"),
        ("rollup", "events, customers and money per page and minute, as Parquet"),
        ("audit.html", "what the audit found, with plots: open it in a browser"),
        ("audit.json", "the same for programs"),
    ):
        print(f"  {folder / path!s:20} {what}")
    return 0


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Runs a broker of its own on a free port; its data are removed when it stops."""
    command = [*BARNABAS, "start", "--port", "0", "--ephemeral"]
    show(command)
    with (
        (folder / "broker.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if " is ready on " not in line:
                sys.exit(f"the broker did not start: see {folder / 'broker.log'}")
            print(line, end="", flush=True)
            yield line.partition(" is ready on ")[2].split()[0]
        finally:
            process.terminate()


def produce(address: str, count: int) -> None:
    for topic, partitions in ((TOPIC, "4"), (DEAD_LETTERS, "1")):
        if run([*BARNABAS, "topics", "create", topic, "--partitions", partitions, "-b", address]):
            sys.exit(f"topic {topic} could not be created")
    command = [*BARNABAS, "produce", TOPIC, "-k", r"\t", "-z", "lz4", "-b", address]
    show(command)
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        write_events(process.stdin, count)
        process.stdin.close()
    if process.returncode:
        sys.exit("the events could not be produced")


def write_events(out: IO[str], count: int) -> None:
    """Writes an hour of a web shop's events: few customers cause most of them, and some are late, or broken."""
    dice = random.Random(7)
    end_ms = time.time_ns() // 1_000_000
    for number in range(count):
        customer = 1 + int(CUSTOMERS * dice.random() ** 3)
        at_ms = end_ms - HOUR_MS + number * HOUR_MS // count - dice.randrange(2_000)
        if number % LATE_EVERY == LATE_EVERY - 1:
            at_ms -= HOUR_MS // 4
        page = dice.choices(PAGES, (30, 25, 30, 10, 5))[0]
        event = {
            "id": number,
            "time": at_ms,
            "customer": customer,
            "page": page,
            "ms": round(dice.lognormvariate(4, 1)),
        }
        if page == "checkout":
            event["total"] = round(dice.lognormvariate(3.5, 0.8), 2)
        text = json.dumps(event)
        if number % CORRUPT_EVERY == CORRUPT_EVERY - 1:
            text = text[: len(text) // 2]  # a client that died while it wrote
        out.write(f"customer-{customer}\t{text}\n")


def jobs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    yield "archive", ["--topic", TOPIC, "--output", str(folder / "archive"), "--once"]
    yield (
        "rollup",
        [
            *("--topic", TOPIC, "--time-field", "time", "--key-field", "page", "--window", "1m", "--watermark", "1m"),
            *("--value-field", "ms,total", "--distinct-field", "customer", "--quantiles", "0.5,0.99"),
            *("--output", str(folder / "rollup"), "--checkpoint", str(folder / "rollup-checkpoint")),
            *("--dead-letter-topic", DEAD_LETTERS, "--once"),
        ],
    )
    yield (
        "audit",
        [
            *("--topic", TOPIC, "--copy-archive", str(folder / "archive")),
            *("--json", str(folder / "audit.json"), "--html", str(folder / "audit.html")),
        ],
    )


def run_job(name: str, address: str, words: list[str]) -> bool:
    return run([*BARNABAS, "pipeline", name, "--bootstrap-servers", address, *words]) in (0, FINDINGS)


def run(command: list[str]) -> int:
    show(command)
    own_jars = {"BARNABAS_SPARK_JARS": str(JARS)} if JARS.is_dir() else {}
    return subprocess.run(command, env={**os.environ, **own_jars}).returncode


def show(command: list[str]) -> None:
    words = ["barnabas", *command[len(BARNABAS) :]]
    print(f"\n$ {shlex.join(words)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
